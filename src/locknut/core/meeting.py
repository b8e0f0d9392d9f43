"""A barrier: parties wait for each other, and all pass together or all are told that it is broken.

The register says which generation gathers and who is here; the last one to come ends the
generation in the same swap, so there is one moment at which all pass. Whoever leaves early (a
timeout, a cancellation, an abort) ends it as broken, by a swap as well. Each party also holds a
permit, which its keeper renews: one that is here without a permit has died, and whoever sees that
breaks the generation. What breaks is only the present generation: whoever comes next begins anew.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from locknut.core import inspecting
from locknut.core.acquiring import acquire
from locknut.core.callers import Caller
from locknut.core.lock_request import LockOptions
from locknut.core.register import Pauses, Register, Seen
from locknut.core.releasing import release
from locknut.core.validation import MOST_PERMITS
from locknut.core.values import Mode
from locknut.errors import BackendUnavailable, BrokenBarrier, ConfigurationError, LocknutError

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import LeaseCore

TTL: Final = 3600.0
"""How long a register outlives the last that happened to it; a waiter keeps it."""
REMEMBERED: Final = 16
"""How many generations back a party that slept still learns what became of its own."""
LOOK: Final = 1.0
"""Seconds between two looks for the dead."""


class Meeting(NamedTuple):
    """What the register says."""

    era: str
    """Another one each time that a register is begun: an engine may have lost the one before."""
    parties: int
    generation: int = 0
    here: tuple[int, ...] = ()
    """The permits of those who came, in this order."""
    last: tuple[int, ...] = ()
    """The same for the generation before, so that one whose answer was lost finds itself."""
    broken: tuple[tuple[int, str], ...] = ()
    """Which of the last generations did not pass, and why."""


class Arrival(NamedTuple):
    """Which one of a generation a party is."""

    era: str
    generation: int
    order: int
    """The place in which it came, from 0."""


class Fate(enum.Enum):
    """What became of a party's generation."""

    WAITING = "waiting"
    PASSED = "passed"
    BROKEN = "broken"


def arrived(meeting: Meeting, permit: int) -> Meeting:
    """One more has come; if it is the last one, all pass."""
    here = (*meeting.here, permit)
    if len(here) < meeting.parties:
        return meeting._replace(here=here)
    return meeting._replace(generation=meeting.generation + 1, here=(), last=here)


def broken(meeting: Meeting, why: str) -> Meeting:
    """Nobody of the present generation passes."""
    known = (*meeting.broken, (meeting.generation, why))[-REMEMBERED:]
    return meeting._replace(
        generation=meeting.generation + 1, here=(), last=meeting.here, broken=known
    )


def arrival_of(meeting: Meeting, permit: int) -> Arrival | None:
    """This party's arrival, if it was counted: its own answer may have been lost."""
    for generation, members in (
        (meeting.generation, meeting.here),
        (meeting.generation - 1, meeting.last),
    ):
        if permit in members:
            return Arrival(meeting.era, generation, members.index(permit))
    return None


def fate_of(meeting: Meeting | None, arrival: Arrival) -> tuple[Fate, str]:
    """What became of this party's generation, and why."""
    if meeting is None or meeting.era != arrival.era:
        return Fate.BROKEN, "the engine does not know it any more"
    if meeting.generation == arrival.generation:
        return Fate.WAITING, ""
    if meeting.generation - arrival.generation > REMEMBERED:
        return Fate.BROKEN, "this party slept for too long to learn what became of it"
    why = dict(meeting.broken).get(arrival.generation)
    return (Fate.PASSED, "") if why is None else (Fate.BROKEN, why)


class BarrierParty:
    """One caller at a barrier."""

    def __init__(self, client: Client, name: str, parties: int, ttl: float | None):
        self._client = client
        self._name = name
        self._parties = parties
        self._register = Register(client, name, "barrier", TTL)
        self._arrivals = f"{name}@arrivals"
        options = LockOptions(ttl, mode=Mode.PERMIT, permits=MOST_PERMITS - 1)
        self._request = client.request(self._arrivals, options)
        self._lease: LeaseCore
        self._permit = 0
        self._arrival: Arrival | None = None

    async def meet(self, until: float) -> int:
        """Wait for all others; return in which place this party came, from 0."""
        acquired: list[LeaseCore] = []
        own = self._client.runtime.caller()
        caller = Caller(own.who, own.task)  # kept here: nobody else releases it
        try:
            while not acquired:  # there is no end of permits: it waits for nobody but the engine
                last = max(until, self._client.runtime.now() + LOOK)
                await acquire(self._client, self._request, caller, last, acquired)
            self._lease = acquired[0]
            self._permit = self._lease._hold.raw
            await self._arrive()
            return await self._wait(until)
        except BrokenBarrier:
            raise
        except BaseException:
            with suppress(LocknutError):  # else the others miss our permit
                await self._client.runtime.finish(self.end("a party was interrupted"))
            raise
        finally:
            for lease in acquired:
                with suppress(LocknutError):
                    await release(self._client, lease)

    async def _arrive(self) -> None:
        doubtful: Meeting | None = None
        """What it was when our arrival may have been counted, though nobody told us."""
        while self._arrival is None:
            seen, meeting = await self._look()
            if meeting is not None:
                self._arrival = arrival_of(meeting, self._permit)
                if self._arrival is not None:
                    return
            if doubtful is not None and self._out_of_sight(doubtful, meeting):
                raise self._unknown()
            doubtful = None
            if seen is None or meeting is None:
                doubtful = await self._begin()
            elif await self._anybody_dead(meeting):
                await self._register.swap(seen, broken(meeting, "a party died"))
            elif await self._register.swap(seen, after := arrived(meeting, self._permit)):
                self._arrival = arrival_of(after, self._permit)
            elif self._register.in_doubt:
                doubtful = meeting

    async def _begin(self) -> Meeting | None:
        """Return what we began with, if we may have begun it, though nobody told us."""
        new = arrived(Meeting(self._client.runtime.new_id()[:8], self._parties), self._permit)
        if await self._register.create(new):
            self._arrival = arrival_of(new, self._permit)
        return new if self._register.in_doubt else None

    def _out_of_sight(self, then: Meeting, now: Meeting | None) -> bool:
        """Whether the members of that generation, among whom we may be, are not named any more."""
        if now is None or now.era != then.era:
            return arrival_of(then, self._permit) is None  # else others began it, and not we
        return now.generation - then.generation > 1

    def _unknown(self) -> BackendUnavailable:
        message = "whether the arrival was counted is not known: its answer was lost"
        return BackendUnavailable(message, key=self._name, backend=self._client.backend.name)

    async def _wait(self, until: float) -> int:
        runtime, pauses = self._client.runtime, Pauses(self._client, until)
        look_at = keep_at = runtime.now()
        while self._arrival is not None:
            seen, meeting = await self._look()
            fate, why = fate_of(meeting, self._arrival)
            if fate is Fate.PASSED:
                break
            if fate is Fate.BROKEN or seen is None or meeting is None:
                raise self._error(why)
            now = runtime.now()
            if now >= until or not self._lease.held:
                await self._register.swap(seen, broken(meeting, _why_left(now >= until)))
                continue  # or it passed in this very moment: the register says so
            if now >= look_at:
                look_at = now + LOOK
                if await self._anybody_dead(meeting):
                    await self._register.swap(seen, broken(meeting, "a party died"))
                    continue
            if now >= keep_at:
                keep_at = now + self._register.ttl / 3
                await self._register.keep(seen)
            await pauses.sleep()
        return 0 if self._arrival is None else self._arrival.order

    async def end(self, why: str) -> None:
        """Break the generation that this party waits in, unless it has passed."""
        while self._arrival is not None:
            seen, meeting = await self._look()
            if (
                seen is None
                or meeting is None
                or fate_of(meeting, self._arrival)[0] is not Fate.WAITING
            ):
                return
            if await self._register.swap(seen, broken(meeting, why)):
                return

    async def abort(self) -> None:
        """Break the present generation, if anybody waits in it."""
        while True:
            seen, meeting = await self._look()
            if seen is None or meeting is None or not meeting.here:
                return
            if await self._register.swap(seen, broken(meeting, "it was aborted")):
                return

    async def waiting(self) -> int:
        """How many are here."""
        meeting = (await self._look())[1]
        return 0 if meeting is None else len(meeting.here)

    async def _look(self) -> tuple[Seen | None, Meeting | None]:
        seen = await self._register.read()
        if seen is None:
            return None, None
        meeting = _meeting(seen.facts)
        if meeting.parties != self._parties:
            message = f"this barrier has {meeting.parties} parties there, not {self._parties}"
            raise ConfigurationError(message, key=self._name, backend=self._client.backend.name)
        return seen, meeting

    async def _anybody_dead(self, meeting: Meeting) -> bool:
        """Asked after the register was read: who is in there had its permit before."""
        others = set(meeting.here) - {self._permit}
        if not others:
            return False
        info = await inspecting.info(self._client, self._arrivals)
        return bool(others - {each.raw for each in info.holders})

    def _error(self, why: str) -> BrokenBarrier:
        message = f"the barrier is broken: {why}; all who waited were told, call wait() again"
        return BrokenBarrier(message, key=self._name, backend=self._client.backend.name)


def _why_left(too_late: bool) -> str:
    return "the timeout of a party expired" if too_late else "a party was stopped for too long"


def _meeting(facts: Sequence[Any]) -> Meeting:
    era, parties, generation, here, last, known = facts
    told = tuple((each, why) for each, why in known)
    return Meeting(era, parties, generation, tuple(here), tuple(last), told)
