"""The keeper: renews all due holds in one round trip, notices losses by the clock, and cleans up.

One per Locks, with its own connection and, in both colours, its own thread, so that neither a
blocked event loop nor a crowd of waiters can make it late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from locknut.core import losing, pacing, renewal_times, renewing
from locknut.core.holding import NEW
from locknut.core.tidying import Tidying
from locknut.core.timetable import BATCH, NEVER, Timetable
from locknut.core.undoing import Owed, Undoing
from locknut.core.values import Broken, Claim, Notice, Renewal, Renewed

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Hold
    from locknut.core.ports import Backend, Runtime

PUNCTUAL = 0.02
"""How much later than its time a hold may be looked at, to share the timetable of its fellows."""
GLANCE = 1.0
"""How often a backend is asked whether the engine has hung up, where it can tell."""
IDLE = 10.0
"""A keeper with nothing to look after ends after this long; the next hold starts another."""


def _is_new(hold: Hold) -> bool:
    return hold.bucket is NEW


def _report(error: Exception) -> None:
    """Where an unexpected error of the keeper becomes visible: as that of a callback's thread."""
    raise error


class Keeper:
    """Renews, notices, and cleans up, for one client; asleep unless something is due."""

    def __init__(
        self,
        client: Client,
        runtime: Runtime,
        connect: Callable[[Runtime], Backend],
        start: Callable[[Coroutine[Any, Any, None]], object],
    ):
        self.client = client
        self.runtime = runtime
        self.timetable = Timetable()
        self.wake = runtime.signal()
        self._connect = connect
        self._start = start
        self._closing = False
        self._tickets = [object()]
        """The thread that takes the one ticket runs the keeper; a resting keeper puts it back."""
        # Filled from anywhere, a destructor included, so without a mutex: appends are atomic.
        self._abandoned: deque[tuple[Hold, int]] = deque()
        self.errands: deque[Callable[[], Coroutine[Any, Any, None]]] = deque()
        self._notices: deque[tuple[str | None, Notice, list[Hold]]] = deque()
        self.undoing = Undoing(client.backend, runtime)
        self._tidying = Tidying(runtime)
        self.beating = False
        self._beat_at = NEVER
        self._backend: Backend | None = None
        """The connection of its own, while it runs."""
        self._hung_up: Callable[[], bool] | None = None
        """Of a backend that `notices_hang_up`; else None."""

    def open_backend(self) -> Backend:
        """A connection of its own."""
        return self._connect(self.runtime)

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
        newest_first = reversed(list(self.client.holds.values()))
        for hold in reversed(list(takewhile(_is_new, newest_first))):
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

    def ring(self) -> None:
        self.wake.notify()
        if self._tickets and self._take_ticket() and not self._closing:
            work = self.run()
            try:
                self._start(work)
            except BaseException:  # no thread to be had: the next ring tries again
                with suppress(ValueError):  # it runs already: the start was interrupted (Ctrl-C)
                    work.close()
                    self._tickets.append(object())
                raise

    def _take_ticket(self) -> bool:
        try:
            self._tickets.pop()  # atomic: of two threads that try, one gets it
        except IndexError:
            return False
        except BaseException:  # interrupted (Ctrl-C) with the ticket in hand
            self._tickets.append(object())
            raise
        return True

    def stop(self) -> None:
        self._closing = True
        self.wake.notify()

    def leave_behind(self) -> None:
        """In a forked child: its thread is not there, and what it was about is the parent's."""
        self._closing = True
        if self._backend is not None:
            self._backend.forked()

    async def run(self) -> None:
        """Until there is nothing to do for a while, or the client closes."""
        self._backend = backend = self.open_backend()
        self._hung_up = backend.hung_up if backend.notices_hang_up else None
        try:
            while not self._closing:
                try:
                    await self._look_after(backend)
                except Exception as error:  # noqa: BLE001  # a keeper that died would lose every lock
                    self.runtime.aside(partial(_report, error))
                    self.undoing.retry_at = self.runtime.now() + pacing.RETRY_MOST
                if not await self._rest(backend):
                    return
            await self._clean_up(backend)
        finally:
            await backend.close()

    async def _rest(self, backend: Backend) -> bool:
        """Sleep until something is due or somebody rings; False to end for want of work."""
        until = min(self._lie_down(), self.undoing.retry_at, self._beat_at)
        if until != NEVER:
            await self._tidying.between(backend, until)
            if self._hung_up is not None:
                until = min(until, self.runtime.now() + GLANCE)
            await self.wake.wait(until)
            return True
        if await self.wake.wait(self.runtime.now() + IDLE):
            return True
        await self._tidying.at_last(backend)
        # A ring between the put-back and this look is ours if we get the ticket again.
        self._tickets.append(object())
        return await self.wake.wait(0.0) and self._take_ticket()

    def _lie_down(self) -> float:
        """When the next hold that we know of is due."""
        with self.client.guard:
            promised = self.timetable.stir()  # first: a hold that is too late for this round rings
            self._take_in()
            return self.timetable.rest(self.runtime.now(), promised)

    async def _look_after(self, backend: Backend) -> None:
        if self._hung_up is not None and self._hung_up():
            holds = list(self.client.holds.copy().values())
            self._notices.append((None, Renewal.HELD, holds))
        while self._notices:
            losing.on_notice(self.client, *self._notices.popleft())
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
        """In one round trip; but those that a command could outlast go by themselves."""
        groups: dict[float, list[Hold]] = {}
        for hold in holds:
            ttl = NEVER if hold.ttl is None or hold.ttl >= renewal_times.SHORT else hold.ttl
            groups.setdefault(ttl, []).append(hold)
        for ttl, group in groups.items():
            await self._renew_together(group, backend, ttl)

    async def _renew_together(self, holds: list[Hold], backend: Backend, ttl: float) -> None:
        sent = self.runtime.now()
        until = NEVER if ttl == NEVER else renewal_times.back_by(holds, sent, ttl)
        try:
            command = backend.renew([hold.claim for hold in holds])
            answers: Sequence[Renewed] = await self.runtime.finish(command, until)
        except Exception:  # noqa: BLE001  # whatever it was, there was no answer: the keeper lives on
            answers = [Renewal.UNKNOWN] * len(holds)
        for hold, answer in zip(holds, answers, strict=True):
            lost = answer is Renewal.LOST or isinstance(answer, Broken)
            if lost or hold.ttl is None or renewal_times.interval(hold) != NEVER:
                renewing.renewed(self.client, hold, answer, sent)  # or else it was just looked at

    def reschedule(self, hold: Hold, now: float, *, at_once: bool = False) -> None:
        """Under the guard: when to look at it again, after a renewal was answered or not."""
        if hold.bucket is NEW:
            self._take_in()  # those before it too, or they would never be seen
        if hold.due != NEVER:  # or else it was taken out because it was due
            self.timetable.remove(hold)
        interval = renewal_times.interval(hold)
        if at_once and interval != NEVER:
            early = self.timetable.add_once(hold, now)
        elif hold.failures:
            retry = now + pacing.backoff(hold.failures, self.runtime.random())
            early = self.timetable.add_once(hold, min(retry, hold.ends_at()))
        elif now + interval < hold.hold_until and interval != NEVER:
            early = self._renew_after(hold, now, interval)
        else:
            end = hold.ends_at()
            early = end != NEVER and self.timetable.add_once(hold, end)
        if early:
            self.ring()

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
                await self.errands.popleft()()
            finally:
                self.client.on_errands -= 1
        while self._abandoned:
            losing.lose_abandoned(self.client, *self._abandoned.popleft())
        meanwhile = partial(self._renew_due, backend)
        await self.undoing.give_back(backend, meanwhile, last=self._closing)
