"""Engines with a bug: what lock recipes get wrong on the server's side or on the way to it."""

from __future__ import annotations

from collections.abc import Sequence

from locknut.backends.memory.store import Held, Key
from locknut.core.values import Answer, Busy, Claim, Granted, Mode, Notice, Renewal
from tests.simulation.memory.backend import SimBackend
from tests.simulation.memory.engine import Pushed
from tests.simulation.memory.node import SimStore

NEVER = float("inf")


class SetThenExpire(SimBackend):
    """SETNX, then EXPIRE as a second command: who dies in between holds for ever."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await super().attempt(claim._replace(ttl=None), patience)
        if isinstance(answer, Granted):
            await super().renew([claim])
        return answer


class GetThenDelete(SimBackend):
    """Look whether it is ours, then delete it: by then it may be another's."""

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        def ours(store: SimStore, _: float) -> bool:
            return any(held.claim.id == claim.id for held in store.holds())

        def delete(store: SimStore, now: float) -> bool:
            for held in [held for held in store.holds() if held.claim.key == claim.key]:
                store.release(held.claim, now, outcome_unknown=False)
            return True

        if not await self.ask((claim,), ours):
            return await super().release(claim, outcome_unknown=outcome_unknown)
        found: bool = await self.ask((claim,), delete)
        return found


class ReleasesAnybody(SimStore):
    """Deletes the key, whoever holds it."""

    def release(self, claim: Claim, now: float, *, outcome_unknown: bool) -> bool:
        for held in [held for held in self.holds() if held.claim.key == claim.key]:
            super().release(held.claim, now, outcome_unknown=False)
        return super().release(claim, now, outcome_unknown=outcome_unknown)


class RenewsAnybody(SimStore):
    """Sets the ttl of the key, whoever holds it."""

    def renew(self, claim: Claim, now: float) -> Notice:
        for held in self.holds():
            if held.claim.key == claim.key:
                return super().renew(held.claim, now)
        return Renewal.LOST


class Revives(SimStore):
    """Renews a hold that has run out but was not yet swept away."""

    def renew(self, claim: Claim, now: float) -> Renewal:
        for held in self.holds():
            if held.claim.id == claim.id:
                held.expires = now + (claim.ttl or NEVER)
                return Renewal.HELD
        return Renewal.LOST


class Recreates(SimStore):
    """Renews by taking the key again where it is free."""

    def renew(self, claim: Claim, now: float) -> Renewal:
        if super().renew(claim, now) is Renewal.HELD:
            return Renewal.HELD
        return Renewal.HELD if isinstance(self.attempt(claim, now), Granted) else Renewal.LOST


class KeepsTheFirstExpiry(SimStore):
    """Finds a repeated attempt's own grant, but does not set the ttl again (S8)."""

    def attempt(self, claim: Claim, now: float) -> Answer:
        for held in self.holds():
            if held.claim.id == claim.id and held.expires > now:
                return Granted(held.raw)
        return super().attempt(claim, now)


class ForgetsTombstones(SimStore):
    """Releases, and lets the attempt that was stuck in a dead connection in afterwards (L3)."""

    def release(self, claim: Claim, now: float, *, outcome_unknown: bool) -> bool:
        return super().release(claim, now, outcome_unknown=outcome_unknown and False)


class StaysInLine(SimStore):
    """Releases holds only: who gives up waiting stays in the line."""

    def release(self, claim: Claim, now: float, *, outcome_unknown: bool) -> bool:
        if any(claim_id == claim.id for _, claim_id in self.places_in_line()):
            return False
        return super().release(claim, now, outcome_unknown=outcome_unknown)


class ForgetsWhatIsDetached(SimStore):
    """A renewal that comes after the hold was detached cuts it down to the ttl of its lock."""

    def detach(self, claim: Claim, ttl: float, now: float) -> bool:
        detached = super().detach(claim, ttl, now)
        for held in self.holds():
            held.detached = False
        return detached


class AttachesTwice(SimStore):
    """Attaches without taking the detached claim away (S15)."""

    def attach(self, detached: Claim, claim: Claim, now: float) -> Granted | None:
        known = self._held(detached, now)
        if known is None:
            return super().attach(detached, claim, now)
        key = self._keys[claim.key, False]
        key.holders[claim.id] = Held(claim, known.raw, now + (claim.ttl or NEVER), known.since)
        return Granted(known.raw)


class CountsWithoutAClock(SimStore):
    """A counter that starts at 1: after a restart without data it starts again."""

    def _enter(self, key: Key, claim: Claim, now: float) -> int:
        wall, self._wall = self._wall, lambda: 0.0
        try:
            return super()._enter(key, claim, now)
        finally:
            self._wall = wall


class CountsOnFromWhatItKnows(SimStore):
    """Looks at the clock only where no number is known: an older state knows an old one."""

    def _enter(self, key: Key, claim: Claim, now: float) -> int:
        wall = self._wall
        if self._last:
            self._wall = lambda: 0.0
        try:
            return super()._enter(key, claim, now)
        finally:
            self._wall = wall


class CountsByTheClock(SimStore):
    """The time is the fence: when the clock is set back, fences go back."""

    def _enter(self, key: Key, claim: Claim, now: float) -> int:
        self._last = 0
        return super()._enter(key, claim, now)


class CountsEntries(SimStore):
    """A shared owner's hold is a number: a repeated attempt counts twice (L4, HINCRBY)."""

    def attempt(self, claim: Claim, now: float) -> Answer:
        answer = super().attempt(claim, now)
        if isinstance(answer, Granted) and claim.owner is not None:
            count = self._counts.get(claim.id, 0)
            self._counts[claim.id] = count + 1
        return answer

    def release(self, claim: Claim, now: float, *, outcome_unknown: bool) -> bool:
        self._counts[claim.id] = self._counts.get(claim.id, 1) - 1
        if self._counts[claim.id] > 0:
            return True
        return super().release(claim, now, outcome_unknown=outcome_unknown)

    @property
    def _counts(self) -> dict[str, int]:
        known: dict[str, int] = self.__dict__.setdefault("counts", {})
        return known


class NoNet(SimStore):
    """Trusts the ring: nobody asks again by himself."""

    def attempt(self, claim: Claim, now: float) -> Answer:
        answer = super().attempt(claim, now)
        return Busy(NEVER) if isinstance(answer, Busy) else answer

    def _settle(self, key: Key, now: float) -> None:
        waiting = dict(key.line)
        super()._settle(key, now)
        key.line = waiting


class OnePermitTooMany(SimStore):
    """Counts the others, and forgets itself."""

    def attempt(self, claim: Claim, now: float) -> Answer:
        return super().attempt(claim._replace(permits=claim.permits + 1), now)


class LetsReadersIn(SimStore):
    """A reader does not look for a writer."""

    def attempt(self, claim: Claim, now: float) -> Answer:
        if claim.mode is Mode.SHARED:
            claim = claim._replace(owner="anybody")
            for held in self.holds():
                held.claim = held.claim._replace(owner="anybody")
            return super().attempt(claim._replace(mode=Mode.EXCLUSIVE), now)
        return super().attempt(claim, now)


class CountsFromDelivery(Pushed):
    """A pushed grant counts from the command that found it (S1)."""

    def delivered(self, claim: Claim, raw: int) -> Granted:
        return Granted(raw, claim.ttl)


class TakesOldPushes(Pushed):
    """A pushed grant is believed even if a later command was answered "not yet" (S1)."""

    def newer(self, claim_id: str, raw: int) -> bool:  # the bug
        return True


class LooksAtTheFirst(SimStore):
    """Several at once: when the first is free, the others will be."""

    def _free_for(self, claim: Claim, now: float) -> bool:
        key = self._keys.get((claim.key, False))
        if key is not None and claim.key.endswith(":twin"):
            key.holders.clear()
            key.line.clear()
        return super()._free_for(claim, now)


class KeepsTheirExpiry(SimStore):
    """Several at once, asked again after a lost answer: yours, but not for longer (S8)."""

    def attempt_all(self, claims: Sequence[Claim], now: float) -> list[Granted] | Busy:
        known = [self._held(claim, now) for claim in claims]
        mine = [Granted(held.raw) for held in known if held is not None]
        return mine if len(mine) == len(claims) else super().attempt_all(claims, now)
