"""The blocking colour: a thread waits for a session, and for its answer, no longer than it may."""

from __future__ import annotations

from threading import get_ident

from locknut.drivers.postgresql.exchange import Steps, T
from locknut.drivers.postgresql.server_session import Session
from locknut.drivers.postgresql.session_pool import SessionPool, SessionWish
from locknut.runtimes.clock import now
from locknut.runtimes.deadlines import time_left
from locknut.runtimes.threads import ThreadSignal


class BlockingLine:
    """For threads."""

    def __init__(self, pool: SessionPool):
        self.pool = pool
        self._busy: set[int] = set()
        """The threads that are in the middle of a command."""

    def until(self, limit: float) -> float:
        return now() + time_left(limit)

    async def session(self, until: float) -> Session:
        wish = SessionWish()
        try:
            self.pool.take(wish)
            if wish.session is None:
                signal = ThreadSignal()
                wish.ring = signal.notify
                if not (wish.is_over() or await signal.wait(until) or wish.is_over()):
                    raise TimeoutError("no session with the server was free in time")
            return wish.result()
        except BaseException:
            self.pool.give_up(wish)
            raise

    async def drive(self, session: Session, steps: Steps[T], until: float) -> T:
        me = get_ident()
        try:
            self._busy.add(me)  # in here: an interrupt (Ctrl-C) may come right after it
            return session.drive(steps, until)
        finally:
            self._busy.discard(me)

    def inside(self) -> bool:
        """A finalizer or a signal handler in the middle of a command would wait for it, if there
        are no more sessions to be had.
        """
        return get_ident() in self._busy or self.pool.guard.inside()

    def forked(self) -> None:
        self._busy.clear()
        self.pool.forked()
