"""Who of our claims in one line shows the server that we are there, for all of them.

A server takes a client for dead that it has not heard of for three seconds. One question a second
and name is enough for that (`attend.lua`), however many claims wait here: one of them asks, the
others sleep. They ask for themselves only once in a minute or two, as a net.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final

from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.scripts import ATTEND
from locknut.backends.redis.waiting_claims import RedisWatch, WaitingClaim
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Claim, Mode
from locknut.drivers.redis.confirmations import Confirmation
from locknut.drivers.redis.endpoints import Clock
from locknut.drivers.redis.lua_scripts import Script

BEAT: Final = 1.0
"""Seconds between two questions for one name."""
EARLY: Final = 0.05
"""Who wakes up so little before its time need not sleep again."""
NET: Final = 60.0
"""Seconds, up to twice as many, after which a claim asks for itself: they come apart by that."""


class Attendance:
    """Our claims that wait for one name, and which of them asks for all."""

    __slots__ = ("asks", "claims", "due")

    def __init__(self) -> None:
        self.claims: dict[str, WaitingClaim] = {}
        self.asks: WaitingClaim | None = None
        self.due = float("-inf")
        """When it is time for the next question."""

    def join(self, waiting: WaitingClaim) -> None:
        self.claims[waiting.claim.id] = waiting
        if self.asks is None:
            self.asks = waiting

    def leave(self, waiting: WaitingClaim) -> WaitingClaim | None:
        """Who has to ask from now on, if that is another one than before."""
        self.claims.pop(waiting.claim.id, None)
        if self.asks is not waiting:
            return None
        # A list first: another thread may join at any moment.
        self.asks = next(iter(list(self.claims.values())), None)
        return self.asks

    def some(self, first: WaitingClaim) -> list[str]:
        """Who asks, the oldest and the newest: what is lost is nearly always lost for all."""
        known = list(self.claims)
        return list(dict.fromkeys((first.claim.id, *known[:1], *known[-1:])))


class Attending(ABC):
    """The part of a backend that knows who waits."""

    _clock: Clock
    _now: Callable[[], float]
    _recipe: Recipe
    _confirmation: Confirmation | None
    _waiting: dict[str, WaitingClaim]
    """Claims that stand in line, by id: from the answer "not yet" to the grant or release."""
    _attended: dict[tuple[str, bool], Attendance]
    """By name, and whether it is the semaphore's: who of those that wait asks for all."""

    def _net(self) -> float:
        """For how long a claim need not ask for itself."""
        return NET * (1.0 + self._clock.random())

    @abstractmethod
    async def _ask(self, script: Script, packed: bytes) -> Any:
        """One script's answer."""

    async def _known(self, waiting: WaitingClaim) -> Answer | None:
        """The answer to a claim that waits, without asking for itself; None: it has to."""
        known = waiting.answer(self._now())
        if known is None:
            heard = waiting.lined and waiting.signal is not None  # else nobody reads its messages
            return await self._attend(waiting) if heard else None
        if type(known) is Busy:
            return self._until_asked(waiting, known)
        return known if self._confirmation is None else None  # asking has it confirmed (S19)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        waiting = self._waiting.get(claim.id)
        if waiting is None:
            waiting = self._waiting[claim.id] = WaitingClaim(claim)
        self._attendance(claim).join(waiting)
        return RedisWatch(waiting, self._signal(waiting, signal), self._left_watch, self._now)

    def _attendance(self, claim: Claim) -> Attendance:
        place = claim.key, claim.mode is Mode.PERMIT
        known = self._attended.get(place)
        return self._attended.setdefault(place, Attendance()) if known is None else known

    def _another_asks(self, waiting: WaitingClaim) -> bool:
        attendance = self._attended.get((waiting.claim.key, waiting.claim.mode is Mode.PERMIT))
        return attendance is not None and attendance.asks not in (None, waiting)

    def _left_watch(self, waiting: WaitingClaim) -> None:
        attendance = self._attendance(waiting.claim)
        heir = attendance.leave(waiting)
        if not attendance.claims:
            self._attended.pop((waiting.claim.key, waiting.claim.mode is Mode.PERMIT), None)
        if heir is not None:
            self._ring(heir)

    def _forget_claims(self) -> None:
        """In a forked child: they are the parent's, and the child is another client than it."""
        self._recipe = Recipe()
        self._waiting.clear()
        self._attended.clear()

    def _ring(self, waiting: WaitingClaim) -> None:  # noqa: B027 -- a loop rings
        """Have it ask soon. Who looks every second by itself need not be rung."""

    def _until_asked(self, waiting: WaitingClaim, busy: Busy) -> Busy:  # noqa: ARG002 -- a loop looks
        """For how long this claim may sleep after it was told "not yet"."""
        return busy

    async def _attend(self, waiting: WaitingClaim) -> Answer | None:
        """What is known because one claim asks for all; None: this one has to ask for itself."""
        sent = self._now()
        attendance = self._attendance(waiting.claim)
        if waiting.deaf or sent >= waiting.ask_at:
            return None
        if sent < attendance.due - EARLY:
            left = BEAT if self._another_asks(waiting) else attendance.due - sent
            return self._until_asked(waiting, Busy(left))
        attendance.asks, attendance.due = waiting, sent + BEAT
        packed = self._recipe.attend(waiting.claim, attendance.some(waiting))
        era = self._era(packed)
        try:
            retry_ms, last_raw, lost = await self._ask(ATTEND, packed)
        except BaseException:
            waiting.doubt()
            attendance.due = sent
            raise
        if lost:
            for each in list(attendance.claims.values()):
                each.doubt()
                self._ring(each)
        if lost or not retry_ms:
            return None
        waiting.not_yet(sent, last_raw, retry_ms / 1000, era)
        attendance.due = sent + retry_ms / 1000
        return self._until_asked(waiting, Busy(retry_ms / 1000))

    def _era(self, packed: bytes) -> object:  # noqa: ARG002 -- for a colour with several connections
        """To which server this would be sent now: see `Pool.era`."""
        return None

    @abstractmethod
    def _signal(self, waiting: WaitingClaim, plain: Callable[[], Signal]) -> Signal:
        """What a caller in line sleeps on."""
