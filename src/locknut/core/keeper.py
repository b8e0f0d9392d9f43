"""The keeper: renews all due holds in one round trip, notices losses by the clock, and cleans up.

One per Locks, with its own connection and, in both colours, its own thread, so that neither a
blocked event loop nor a crowd of waiters can make it late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from locknut.core import losing, pacing, renewal_times, renewing
from locknut.core.holding import NEW
from locknut.core.keeper_thread import KeeperThread
from locknut.core.tidying import Tidying
from locknut.core.timetable import BATCH, NEVER, Timetable, newest
from locknut.core.undoing import Owed, Undoing
from locknut.core.values import Claim, Notice, Renewal

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Hold
    from locknut.core.ports import Backend, Runtime

T = TypeVar("T")
PUNCTUAL = 0.02
"""How much later than its time a hold may be looked at, to share the timetable of its fellows."""
GLANCE = 1.0
"""How often a backend is asked whether the engine has hung up, where it can tell."""
IDLE = 10.0
"""A keeper with nothing to look after ends after this long; the next hold starts another."""


def _report(error: Exception) -> None:
    """Where an unexpected error of the keeper becomes visible: as that of a callback's thread."""
    raise error


class _Queue(deque[T]):
    """What is to be done. It is filled from anywhere, without a mutex: appends are atomic."""

    failed: object = None
    """The one that failed last."""


class _First(Generic[T]):
    """The first of a queue, which leaves it when it is done or has failed twice: what was broken
    off is done again.
    """

    __slots__ = ("_queue",)

    def __init__(self, queue: _Queue[T]):
        self._queue = queue

    def __enter__(self) -> T:
        return self._queue[0]

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        queue = self._queue
        if kind is None or queue.failed is queue[0]:
            queue.popleft()
        elif issubclass(kind, Exception):
            queue.failed = queue[0]


class Keeper(KeeperThread):
    """Renews, notices, and cleans up, for one client; asleep unless something is due."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        connect: Callable[[Runtime], Backend],
        start: Callable[[Coroutine[Any, Any, None]], object],
    ):
        super().__init__(runtime, start)
        self.client = client
        self.timetable = Timetable()
        self._connect = connect
        self._disturbed = False
        """Whether a look was broken off, so that nobody knows what was done and planned."""
        # Filled from anywhere, a destructor included, so without a mutex: appends are atomic.
        self._abandoned: _Queue[tuple[Hold, int]] = _Queue()
        self.errands: _Queue[Callable[[Backend], Coroutine[Any, Any, None]]] = _Queue()
        self._notices: _Queue[tuple[str | None, Notice, list[Hold]]] = _Queue()
        self.undoing = Undoing(client.backend, runtime)
        self._tidying = Tidying(runtime)
        self.beating = False
        self._beat_at = NEVER

    def open_backend(self) -> Backend:
        """A connection of its own."""
        return self._connect(self.runtime)

    def exchange(self, made_of: Callable[[Backend], Backend]) -> None:
        """Use what this makes of each connection, of the present one and of later ones."""
        connect = self._connect
        self._connect = lambda runtime: made_of(connect(runtime))
        if self._backend is not None:
            self._backend = made_of(self._backend)

    def expect(self, hold: Hold) -> None:
        """A hold has begun that must be looked at sooner than we would by ourselves."""
        self.ring()  # first: interrupted (Ctrl-C) in between, the next one just rings again
        with self.client.guard:
            if hold.bucket is NEW:  # else it has been seen already
                self.timetable.asleep_until = min(self.timetable.asleep_until, hold.due)

    def _take_in(self) -> None:
        """Under the guard: holds that began since the last look get their due time.

        They stand together at the end of all holds. Most holds never come here: they are over
        before, and neither their beginning nor their end touches the timetable.
        """
        for hold in reversed(newest(self.client.holds)):
            self._enrol(hold)

    def _enrol(self, hold: Hold) -> None:
        hold.bucket = None
        if renewal_times.is_short(hold):
            self.timetable.add_once(hold, hold.due)
            return
        delay = renewal_times.first_look(hold)
        if delay == NEVER:
            return
        slack = delay / 10
        if renewal_times.interval(hold) == delay:
            self._renew_after(hold, hold.anchor, delay, slack)
        else:  # its end, not a renewal: the notice must be on time
            self.timetable.add(hold, hold.anchor, delay, min(slack, PUNCTUAL))

    def abandon(self, hold: Hold, number: int) -> None:
        self._abandoned.append((hold, number))
        with suppress(RuntimeError):  # from a destructor, perhaps while the interpreter ends
            self.ring()

    def undo(self, claim: Claim, *, outcome_unknown: bool, back_to: Claim | None = None) -> None:
        """Release a claim behind its caller's back, as often as it takes while it could matter; or,
        where the engine can, put the hold back that it may have taken over.
        """
        self.undoing.add(Owed(claim, outcome_unknown, back_to))
        self.ring()

    def on_notice(self, claim_id: str | None, what: Notice) -> None:
        """The engine says something about a hold without being asked; or about all that there are
        now, and not about those that come before we look.
        """
        holds = list(self.client.holds.copy().values()) if claim_id is None else []
        self._notices.append((claim_id, what, holds))
        self.ring()

    def leave_behind(self) -> None:
        """In a forked child: its thread is not there, and what it was about is the parent's."""
        self._closing = True
        if self._backend is not None:
            self._backend.forked()

    async def _look(self, backend: Backend) -> bool:
        """Do what is to be done now; False if it was broken off."""
        try:
            if self._disturbed:
                self._begin_anew()
            await self._look_after(backend)
        except Exception as error:  # noqa: BLE001  # a keeper that died would lose every lock
            self._failures += 1
            self._disturbed = True
            self.undoing.retry_at = self.runtime.now() + self._backoff()
            self.runtime.aside(partial(_report, error))
            return False
        return True

    def _begin_anew_later(self) -> bool:
        self._disturbed = True
        self.timetable.asleep_until = NEVER  # from now on every new hold rings
        queues = self.client.holds, self.errands, self._abandoned, self._notices, self.undoing
        return any(queues)

    def _begin_anew(self) -> None:
        """Whatever was planned may be forgotten, so every hold is looked at now."""
        with self.client.guard:
            self.timetable = Timetable()
            now = self.runtime.now()
            for hold in list(self.client.holds.values()):
                hold.bucket, hold.due = None, NEVER
                if hold.ends_at() != NEVER:
                    self.timetable.add_once(hold, now)
            if self.client.heartbeat is not None:
                self._beat_at = now
            self._disturbed = False

    async def _rest(self, backend: Backend) -> bool:
        """Sleep until something is due or somebody rings; False to end for want of work."""
        until = min(self._lie_down(), self.undoing.retry_at, self._beat_at)
        if until != NEVER:
            await self._tidying.between(backend, until)
            if backend.notices_hang_up:
                until = min(until, self.runtime.now() + GLANCE)
            await self.wake.wait(until)
            return True
        if await self.wake.wait(self.runtime.now() + IDLE):
            return True
        await self._tidying.at_last(backend)
        return False

    def _lie_down(self) -> float:
        """When the next hold that we know of is due."""
        with self.client.guard:
            promised = self.timetable.stir()  # first: a hold that is too late for this round rings
            self._take_in()
            return self.timetable.rest(self.runtime.now(), promised)

    async def _look_after(self, backend: Backend) -> None:
        if backend.notices_hang_up and backend.hung_up():
            holds = list(self.client.holds.copy().values())
            self._notices.append((None, Renewal.HELD, holds))
        while self._notices:
            with _First(self._notices) as notice:
                losing.on_notice(self.client, *notice)
        await self._clean_up(backend)
        await self._renew_due(backend)

    async def _renew_due(self, backend: Backend) -> None:
        if self.runtime.now() >= self._beat_at:
            await self._look_at_all(backend)
        while (batch := self._due()) is not None:
            await self._renew(batch, backend)

    def beat(self) -> None:
        """Begin to look at all holds, every heartbeat: short ones are over by then."""
        self.beating = True
        try:
            self._beat_at = self.runtime.now() + (self.client.heartbeat or NEVER)
            self.ring()
        except BaseException:  # interrupted (Ctrl-C): the next one begins
            self.beating = False
            raise

    async def _look_at_all(self, backend: Backend) -> None:
        """Ask whether all holds are still ours, where the engine sends no notice of a loss."""
        self.beating, self._beat_at = False, NEVER  # first: a new hold beats anew
        holds = list(self.client.holds.copy().values())
        if holds:
            self.beat()
        for start in range(0, len(holds), BATCH):
            await self._renew(holds[start : start + BATCH], backend)

    def _due(self) -> list[Hold] | None:
        """Those that need a renewal now; None when nobody is due. Ends those that are over."""
        with self.client.guard:
            self._take_in()
            now = self.runtime.now()
            due = self.timetable.pop_due(now)
        renewable: list[Hold] = []
        for hold in due:
            if now >= hold.valid_until or now >= hold.hold_until:
                losing.expire_if_due(self.client, hold)
            elif renewal_times.interval(hold) != NEVER:
                renewable.append(hold)
            else:
                with self.client.guard:
                    if not hold.ending:
                        self.timetable.add_once(hold, hold.ends_at())
        return renewable if due else None

    async def _renew(self, holds: list[Hold], backend: Backend) -> None:
        await renewing.renew_all(self.client, self.runtime, holds, backend)

    def reschedule(self, hold: Hold, now: float, *, at_once: bool = False) -> None:
        """Under the guard: when to look at it again, after a renewal was answered or not."""
        try:
            if self._put_off(hold, now, at_once=at_once):
                self.ring()
        except BaseException:  # interrupted (Ctrl-C) in a caller: one may have no date now
            self._disturbed = True
            self.ring()
            raise

    def _put_off(self, hold: Hold, now: float, *, at_once: bool) -> bool:
        if hold.bucket is NEW:
            self._take_in()  # those before it too, or they would never be seen
        if hold.due != NEVER:  # or else it was taken out because it was due
            self.timetable.remove(hold)
        interval = renewal_times.interval(hold)
        if at_once and interval != NEVER:
            return self.timetable.add_once(hold, now)
        if hold.failures:
            retry = now + pacing.backoff(hold.failures, self.runtime.random())
            return self.timetable.add_once(hold, min(retry, hold.ends_at()))
        if now + interval < hold.hold_until and interval != NEVER:
            return self._renew_after(hold, now, interval)
        end = hold.ends_at()
        return end != NEVER and self.timetable.add_once(hold, end)

    def _renew_after(self, hold: Hold, start: float, interval: float, slack: float = 0.0) -> bool:
        """Under the guard: after its interval, or sooner if the engine granted less than was asked
        for, as the session of a ZooKeeper may.
        """
        sooner = renewal_times.sooner(hold, start)
        if sooner < interval:
            return self.timetable.add_once(hold, start + sooner)
        return self.timetable.add(hold, start, interval, slack)

    async def _clean_up(self, backend: Backend) -> None:
        while self.errands:
            self.client.on_errands += 1
            try:
                with _First(self.errands) as errand:
                    await errand(backend)
            finally:
                self.client.on_errands -= 1
        while self._abandoned:
            with _First(self._abandoned) as (hold, number):
                losing.lose_abandoned(self.client, hold, number)
        meanwhile = partial(self._renew_due, backend)
        await self.undoing.give_back(backend, meanwhile, last=self._closing)
