"""The keeper: renews all due holds in one round trip, notices losses by the clock, and cleans up.

The `Schedule` says what is due; what others leave to the keeper waits in queues until it looks.
There is one per Locks, with its own connection and, in both colours, its own thread, so that
neither a blocked event loop nor a crowd of waiters can make it late.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from locknut.core import losing, renewing
from locknut.core.keeper_thread import KeeperThread
from locknut.core.runtime_port import NEVER
from locknut.core.schedule import Schedule, interval
from locknut.core.tidying import Tidying
from locknut.core.timetable import BATCH
from locknut.core.undoing import Owed, Undoing
from locknut.core.values import Claim, Notice, Renewal

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Hold
    from locknut.core.ports import Backend, Runtime

T = TypeVar("T")
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
        self.schedule = Schedule(client, self.ring)
        self._connect = connect
        # Filled from anywhere, a destructor included, so without a mutex: appends are atomic.
        self._abandoned: _Queue[tuple[Hold, int]] = _Queue()
        self.errands: _Queue[Callable[[Backend], Coroutine[Any, Any, None]]] = _Queue()
        self._notices: _Queue[tuple[str | None, Notice, list[Hold]]] = _Queue()
        self.undoing = Undoing(client.backend, runtime)
        self._tidying = Tidying(runtime)

    def open_backend(self) -> Backend:
        """A connection of its own."""
        return self._connect(self.runtime)

    def exchange(self, made_of: Callable[[Backend], Backend]) -> None:
        """Use what this makes of each connection, of the present one and of later ones."""
        connect = self._connect
        self._connect = lambda runtime: made_of(connect(runtime))
        if self._backend is not None:
            self._backend = made_of(self._backend)

    def abandon(self, hold: Hold, number: int) -> None:
        """The hold's lease of this number was collected: nobody will release it."""
        self._abandoned.append((hold, number))
        with suppress(RuntimeError):  # from a destructor, perhaps while the interpreter ends
            self.ring_if_possible()

    def undo(self, claim: Claim, *, outcome_unknown: bool, back_to: Claim | None = None) -> None:
        """Release a claim behind its caller's back, as often as it takes while it could matter; or,
        where the engine can, put the hold back that it may have taken over.
        """
        self.undoing.add(Owed(claim, outcome_unknown, back_to))
        self.ring_if_possible()

    def do(self, errand: Callable[[Backend], Coroutine[Any, Any, None]]) -> None:
        """Do this on the keeper's thread, with its connection."""
        self.errands.append(errand)
        self.ring_if_possible()

    def listen_to(self, backend: Backend) -> None:
        """Take the notices of the client's backend in; that does not keep this keeper alive."""
        known = weakref.ref(self)

        def on_notice(claim_id: str | None, what: Notice) -> None:
            keeper = known()
            if keeper is not None:
                keeper.on_notice(claim_id, what)

        backend.listen(on_notice)

    def on_notice(self, claim_id: str | None, what: Notice) -> None:
        """The engine says something about a hold without being asked; or about all that there are
        now, and not about those that come before we look.
        """
        holds = list(self.client.holds.copy().values()) if claim_id is None else []
        self._notices.append((claim_id, what, holds))
        self.ring_if_possible()

    def leave_behind(self) -> None:
        """In a forked child: its thread is not there, and what it was about is the parent's."""
        self._closing = True
        if self._backend is not None:
            self._backend.forked()

    async def _look(self, backend: Backend) -> bool:
        """Do what is to be done now; False if it was broken off."""
        try:
            if self.schedule.disturbed:
                self.schedule.begin_anew()
            await self._look_after(backend)
        except Exception as error:  # noqa: BLE001  # a keeper that died would lose every lock
            self._failures += 1
            self.schedule.disturbed = True
            self.undoing.retry_at = self.runtime.now() + self._backoff()
            self.runtime.aside(partial(_report, error))
            return False
        return True

    def _begin_anew_later(self) -> bool:
        self.schedule.disturbed = True
        # From now on every new hold rings: perhaps no thread can be started right now.
        self.schedule.timetable.asleep_until, self.schedule.beating = NEVER, False
        queues = self.client.holds, self.errands, self._abandoned, self._notices, self.undoing
        owes = self._backend is not None and self._backend.settles_at != NEVER
        return owes or any(queues)

    async def _rest(self, backend: Backend) -> bool:
        """Sleep until something is due or somebody rings; False to end for want of work."""
        until = min(self.schedule.lie_down(), self.undoing.retry_at, backend.settles_at)
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

    async def _look_after(self, backend: Backend) -> None:
        if backend.notices_hang_up and backend.hung_up():
            holds = list(self.client.holds.copy().values())
            self._notices.append((None, Renewal.HELD, holds))
        while self._notices:
            with _First(self._notices) as notice:
                renewing.noticed(self.client, *notice)
        await self._clean_up(backend)
        await self._renew_due(backend)

    async def _renew_due(self, backend: Backend) -> None:
        client, runtime, everybody = self.client, self.runtime, self.schedule.pop_beat()
        for start in range(0, len(everybody), BATCH):
            await renewing.renew_all(client, runtime, everybody[start : start + BATCH], backend)
        now = runtime.now()  # those that become due meanwhile have their turn after the other work
        while due := self.schedule.pop_due(now):
            await renewing.renew_all(client, runtime, self._renewable(due), backend)

    def _renewable(self, due: list[Hold]) -> list[Hold]:
        """End those that are over; return those that need a renewal now."""
        now = self.runtime.now()
        renewable: list[Hold] = []
        for hold in due:
            if now >= hold.valid_until or now >= hold.hold_until:
                losing.expire_if_due(self.client, hold)
            elif interval(hold) != NEVER:
                renewable.append(hold)
            else:
                self.schedule.plan_end(hold)
        return renewable

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
        if self.runtime.now() >= backend.settles_at:
            await backend.settle()
