"""Which of our claims in one line shows the server that we are alive, for all of them.

A server takes a client for dead that it has not heard of for three seconds. One question a second
and name is enough for that (`attend.lua`), however many claims wait here: one of them asks, the
others sleep. They ask for themselves only once in a minute or two, as a net.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final

from locknut.backends.redis.delivery import Delivery
from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.scripts import ATTEND
from locknut.backends.redis.server_port import Server
from locknut.backends.redis.waiting_claims import RedisWatch, WaitingClaim
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Claim, Mode
from locknut.drivers.redis.endpoints import TimeAndChance

BEAT: Final = 1.0
"""Seconds between two questions for one name."""
EARLY: Final = 0.05
"""A claim that wakes up so little before its time need not sleep again."""
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
        """The claim that has to ask from now on, if that is another one than before."""
        self.claims.pop(waiting.claim.id, None)
        if self.asks is not waiting:
            return None
        # A list first: another thread may join at any moment.
        self.asks = next(iter(list(self.claims.values())), None)
        return self.asks

    def some(self, first: WaitingClaim) -> list[str]:
        """The claim that asks, the oldest and the newest: nearly every loss is one for all."""
        known = list(self.claims)
        return list(dict.fromkeys((first.claim.id, *known[:1], *known[-1:])))


class Attendances:
    """All our claims that wait, and what is known of them without asking for each."""

    def __init__(self, server: Server, recipe: Recipe, delivery: Delivery, clock: TimeAndChance):
        self._server = server
        self._recipe = recipe
        self._delivery = delivery
        self._waiting = delivery.waiting
        self._clock, self._now = clock, clock.now
        self._attended: dict[tuple[str, bool], Attendance] = {}
        """By name, and whether it is the semaphore's: which of the waiting claims asks for all."""

    def net(self) -> float:
        """For how long a claim need not ask for itself."""
        return NET * (1.0 + self._clock.random())

    async def known(self, waiting: WaitingClaim) -> Answer | None:
        """The answer to a claim that waits, without asking for itself; None: it has to."""
        known = waiting.answer(self._now())
        if known is None:
            heard = waiting.lined and waiting.signal is not None  # else nobody reads its messages
            return await self._attend(waiting) if heard else None
        if type(known) is Busy:
            return self.until_asked(waiting, known)
        return known if self._server.confirmation is None else None  # asking has it confirmed (S19)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        waiting = self._waiting.get(claim.id)
        if waiting is None:
            waiting = self._waiting[claim.id] = WaitingClaim(claim)
        self._attendance(claim).join(waiting)
        bell = self._delivery.signal(waiting, signal)
        return RedisWatch(waiting, bell, self._left_watch, self._now)

    def until_asked(self, waiting: WaitingClaim, busy: Busy) -> Busy:
        """For how long this claim may sleep after the answer "not yet"."""
        return self._delivery.until_asked(waiting, busy, self._another_asks(waiting))

    def forked(self) -> None:
        """In a forked child: they are the parent's, and the child is another client than it."""
        self._attended.clear()

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
            self._delivery.ring(heir)

    async def _attend(self, waiting: WaitingClaim) -> Answer | None:
        """What is known because one claim asks for all; None: this one has to ask for itself."""
        sent = self._now()
        attendance = self._attendance(waiting.claim)
        if waiting.deaf or sent >= waiting.ask_at:
            return None
        if sent < attendance.due - EARLY:
            left = BEAT if self._another_asks(waiting) else attendance.due - sent
            return self.until_asked(waiting, Busy(left))
        attendance.asks, attendance.due = waiting, sent + BEAT
        packed = self._recipe.attend(waiting.claim, attendance.some(waiting))
        era = self._server.era_of(packed)
        try:
            retry_ms, last_raw, lost = await self._server.ask(ATTEND, packed)
        except BaseException:
            waiting.doubt()
            attendance.due = sent
            raise
        if lost:
            for each in list(attendance.claims.values()):
                each.doubt()
                self._delivery.ring(each)
        if lost or not retry_ms:
            return None
        waiting.not_yet(sent, last_raw, retry_ms / 1000, era)
        attendance.due = sent + retry_ms / 1000
        return self.until_asked(waiting, Busy(retry_ms / 1000))
