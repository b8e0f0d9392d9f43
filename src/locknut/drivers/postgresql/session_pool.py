"""The sessions of one backend: so many at most, each for one caller at a time, kept while idle.

Whoever finds none idle waits for its wish, and gets the first that is free: one that another caller
gives back, or a new one, which a thread opens. So a slow server, or a name that takes long to look
up, holds up nobody for longer than the caller's own time.

A wish is no `concurrent.futures.Future`: that one waits, and is set, under a mutex that is taken in
Python code. An interrupt (Ctrl-C) there came out as a RuntimeError, or left the mutex taken: then
the next to serve the wish stood still, and with it everybody who wanted a session.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from locknut.drivers.postgresql.primary import Primary
from locknut.drivers.postgresql.server_session import Session, open_session
from locknut.drivers.postgresql.settings import NAME, Settings
from locknut.errors import BackendUnavailable, LocknutError
from locknut.runtimes import cpython
from locknut.runtimes.clock import now
from locknut.runtimes.threads import Guard

IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle session is looked at before it is used: a server that restarted has
hung up, and a release that is sent to nobody is a release in doubt."""
LONG_IDLE: Final = 60.0
"""Seconds after which a session is closed that nobody has needed, if it is not the only one."""
PAUSE: Final = 0.1
"""Seconds for which a server that could not be reached is left alone: a caller that asks meanwhile
gets that error at once. The first failure says nothing of the next try."""


class SessionWish:
    """What a caller has of the pool, noted at the moment that it has it. Whoever wants a session
    makes this first, so that it can be given up whenever an interrupt (Ctrl-C) comes.
    """

    __slots__ = ("error", "given_up", "opens", "ring", "session")

    def __init__(self) -> None:
        self.session: Session | None = None
        self.error: LocknutError | None = None
        """Why there is none."""
        self.ring: Callable[[], object] | None = None
        """To be called when there is a session, or an error. Whoever sets it looks after that
        whether there is one already.
        """
        self.given_up = False
        self.opens: object | None = None
        """Names the session that is to be opened for it, if no thread does that yet."""

    def is_over(self) -> bool:
        return self.session is not None or self.error is not None

    def result(self) -> Session:
        """Once it is over."""
        if self.session is None:
            raise _again(cast("LocknutError", self.error))
        return self.session

    def tell(self) -> None:
        if self.ring is not None:
            self.ring()


class SessionPool:
    """All sessions of one backend, except that of its listener."""

    def __init__(self, settings: Settings, primary: Primary):
        self.settings = settings
        self.primary = primary
        self.guard = Guard()
        self._begin()
        primary.follow(self._changed)

    def _begin(self) -> None:
        self._idle: list[Session] = []
        self._open = 0
        """Those that are open or being opened."""
        self._coming: set[object] = set()
        """Those for which a thread is to be started, by name."""
        self._wanted: deque[SessionWish] = deque()
        self._failures = 0
        self._failed: tuple[float, LocknutError] | None = None
        self._closed = False
        self._era = object()

    def take(self, wish: SessionWish) -> None:
        """Let the wish have a session, now or as soon as one is free, or an error. Whatever is
        raised here or afterwards, the caller has to `give_up` the wish.
        """
        with self.guard:
            while self._idle:
                wish.session = session = self._idle[-1]
                session.lent_to = wish
                del self._idle[-1]  # no call in between
                if session.epoch == self.primary.epoch and (
                    now() - session.used < IDLE_UNCHECKED or session.alive()
                ):
                    return
                self._open -= 1
                session.lent_to, wish.session = None, None  # no call in between
                session.close()
            opens = None
            if self._open < self.settings.connections:
                if self._failed is not None and now() < self._failed[0]:
                    raise _again(self._failed[1])
                opens = object()
                self._open += 1
                wish.opens = opens  # no call in between
                self._coming.add(opens)
            self._wanted.append(wish)
        if opens is not None:
            self._start_opening(opens)
            wish.opens = None

    def _start_opening(self, name: object) -> None:
        # Not waited for: an interrupt (Ctrl-C) in that wait may look as if there were no thread.
        opening = cpython.UnawaitedThread(
            target=self._open_one, args=(self._era, name), name="locknut-postgresql", daemon=True
        )
        try:
            opening.start()
        except RuntimeError:  # no thread is to be had while the interpreter exits
            self._open_one(self._era, name)

    def _open_one(self, era: object, name: object) -> None:
        with self.guard:
            if era is self._era and name not in self._coming:
                return  # nobody wants it any more
            self._coming.discard(name)
        try:
            session = open_session(self.settings, self.primary)
        except LocknutError as error:
            self._could_not_open(era, error)
        except BaseException as error:  # noqa: BLE001  # who waits for it must learn of it
            failed = BackendUnavailable(f"{self.settings.place}: {error}", backend=NAME)
            failed.__cause__ = error
            self._could_not_open(era, failed)
        else:
            self._failures, self._failed = 0, None
            if era is self._era:
                self.give_back(session)
            else:
                session.close()

    def _could_not_open(self, era: object, error: LocknutError) -> None:
        with self.guard:
            if era is not self._era:
                return
            self._open -= 1
            self._failures += 1
            if self._failures > 1:
                self._failed = now() + PAUSE, error
            if self._open and isinstance(error, BackendUnavailable):
                failed = []  # the server may be full: those that are open serve all, in turn
            else:
                failed, self._wanted = list(self._wanted), deque()
            for wish in failed:
                wish.error = error
        for wish in failed:
            wish.tell()

    def give_up(self, wish: SessionWish) -> None:
        """Whoever wanted it has no time left, or was interrupted. Can be asked for again."""
        with self.guard:
            wish.given_up = True
            if wish.opens in self._coming:  # and if a thread was started after all, it ends
                self._coming.discard(wish.opens)
                self._open -= 1
            with suppress(ValueError):
                self._wanted.remove(wish)
        session = wish.session
        if session is not None and session.lent_to is wish:
            self.give_back(session)

    def give_back(self, session: Session) -> None:
        lent_to = session.lent_to
        try:
            self._give_back(session, lent_to)
        except BaseException:  # an interrupt (Ctrl-C): it is finished all the same
            self._give_back(session, lent_to)
            raise

    def _give_back(self, session: Session, lent_to: object) -> None:
        """Can be asked for again: once it is somebody else's, there is nothing to give back."""
        session.used = now()
        leaving: list[Session] = []
        with self.guard:
            if session.lent_to is lent_to is not None:
                current = session.epoch == self.primary.epoch
                if not (current and self._hand_over(session)):
                    if current and not self._closed:
                        leaving = self._too_long_idle()
                        self._idle += [session]
                    else:
                        self._open -= 1
                        leaving = [session]
                    session.lent_to = None  # no call in between
            next_one = session.lent_to
        if isinstance(next_one, SessionWish) and next_one is not lent_to:
            next_one.tell()  # again, perhaps: that does no harm
        for each in leaving:
            each.close()

    def _hand_over(self, session: Session) -> bool:
        """To the first who wants one."""
        while self._wanted:
            wish = self._wanted[0]
            wanted = not wish.given_up and wish.error is None
            if wanted:
                wish.session = session
                session.lent_to = wish
            del self._wanted[0]  # no call in between
            if wanted:
                return True
        return False

    def _too_long_idle(self) -> list[Session]:
        """The one that was used least lately, if nobody has needed it for long."""
        if self._idle and now() - self._idle[0].used > LONG_IDLE:
            self._open -= 1
            return [self._idle.pop(0)]
        return []

    def drop(self, session: Session) -> None:
        """It is in doubt; whoever waits gets another one."""
        session.close()
        name = object()
        with self.guard:
            if session.lent_to is None:
                return
            wanted = bool(self._wanted)
            if wanted:
                self._coming.add(name)
            else:
                self._open -= 1
            session.lent_to = None
        if wanted:
            self._start_opening(name)

    def hung_up(self) -> bool:
        """Whether the server has cut an idle session: it may not be what it was."""
        with self.guard:
            cut = [each for each in self._idle if not each.alive()]
            self._idle = [each for each in self._idle if each not in cut]
            self._open -= len(cut)
        for each in cut:
            each.close()
        return bool(cut)

    def _changed(self) -> None:
        """Another server is the primary: what is idle goes, what is in use is looked at after."""
        with self.guard:
            old = [each for each in self._idle if each.epoch != self.primary.epoch]
            self._idle = [each for each in self._idle if each not in old]
            self._open -= len(old)
        for each in old:
            each.close()

    def close(self) -> None:
        """A last release may still come: it gets a session of its own."""
        with self.guard:
            self._closed = True
            idle, self._idle = self._idle, []
            self._open -= len(idle)
        for each in idle:
            each.close()

    def forked(self) -> None:
        """The sessions are the parent's, and so may be the mutex."""
        self.guard = Guard()
        self._begin()


def _again(error: LocknutError) -> LocknutError:
    """The same for another caller, whose lock and traceback will be its own."""
    again = type(error)(error.message, backend=error.backend)
    again.__cause__ = error
    return again
