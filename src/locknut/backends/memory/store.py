"""A lock service in one object: who holds what until when, who waits, and who may enter.

Pure: the clock comes with every call. The memory engine runs it under a mutex, the simulator behind
a network that loses messages. First come, first served, always; a waiter that has not been heard of
for a while is taken for dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from locknut.core.admission import ahead, entering, may_enter
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Claim,
    Granted,
    Holder,
    LockInfo,
    Mode,
    Notice,
    Renewal,
)

NET = 1.0
"""Ask again after this long even without a ring."""
SILENCE = 3.0
"""A waiter silent for this long is dead: each live one asks again within NET."""
TOMBSTONE = 60.0
NOTE = 60.0
"""How long a holder can still learn who broke its lock, if it did not hear it at once."""
NEVER = float("inf")


@dataclass(slots=True)
class Held:
    """One claim's hold."""

    claim: Claim
    raw: int
    expires: float
    since: float
    detached: bool = False
    """Detached: nothing that comes late shortens it."""


@dataclass(slots=True)
class Waiting:
    """One claim's place in line."""

    claim: Claim
    seen: float
    """When it was last heard of."""


class Key:
    """One name: its holders and its line, both in the order they came."""

    __slots__ = ("holders", "line")

    def __init__(self) -> None:
        self.holders: dict[str, Held] = {}
        self.line: dict[str, Waiting] = {}


class Store:
    """All keys of one engine."""

    def __init__(
        self,
        wall: Callable[[], float],
        ring: Callable[[str], None],
        on_notice: Callable[[str, Notice], None],
        gone: Callable[[str], bool] = lambda _: False,
    ):
        self._wall = wall
        self._ring = ring
        self._on_notice = on_notice
        self._gone = gone
        """Whether the waiter of a claim can never be woken again."""
        self._keys: dict[tuple[str, bool], Key] = {}
        self._tombstones: dict[str, float] = {}
        self._notes: dict[str, tuple[str, float]] = {}
        """By claim id: who broke the hold and why, and until when that is kept."""
        self._last = 0

    def attempt(self, claim: Claim, now: float) -> Answer:
        if self._tombstones and self._buried(claim.id, now):
            return Busy(NEVER)
        place = (claim.key, claim.mode is Mode.PERMIT)
        key = self._keys.get(place)
        if key is None:
            key = self._keys[place] = Key()
            return Granted(self._enter(key, claim, now))
        self._settle(key, now)
        held = key.holders.get(claim.id)
        if held is not None:
            _prolong(held, claim, now)
            return Granted(held.raw)
        if may_enter(key, claim):
            key.line.pop(claim.id, None)
            return Granted(self._enter(key, claim, now))
        if not claim.waits:
            return Busy(NET, queued=False)
        key.line[claim.id] = Waiting(claim, now)
        return Busy(self._retry_in(key, claim, now))

    def attempt_all(self, claims: Sequence[Claim], now: float) -> list[Granted] | Busy:
        """All of them or none, and nobody is put in line."""
        if all(self._free_for(claim, now) for claim in claims):
            answers = [self.attempt(claim, now) for claim in claims]
            return [each for each in answers if isinstance(each, Granted)]
        return Busy(NET)

    def _free_for(self, claim: Claim, now: float) -> bool:
        if self._tombstones and self._buried(claim.id, now):
            return False
        key = self._keys.get((claim.key, claim.mode is Mode.PERMIT))
        if key is None:
            return True
        self._settle(key, now)
        return claim.id in key.holders or may_enter(key, claim)

    def renew(self, claim: Claim, now: float) -> Notice:
        held = self._held(claim, now)
        if held is None:
            note, until = self._notes.get(claim.id, ("", now))
            return Broken(note) if until > now else Renewal.LOST
        _prolong(held, claim, now)
        return Renewal.HELD

    def release(self, claim: Claim, now: float, *, outcome_unknown: bool) -> bool:
        if outcome_unknown:
            self._tombstones[claim.id] = now + max(claim.ttl or 0.0, TOMBSTONE)
        place = (claim.key, claim.mode is Mode.PERMIT)
        key = self._keys.get(place)
        if key is None:
            return False
        held = key.holders.pop(claim.id, None)
        waited = key.line.pop(claim.id, None)
        if not key.holders and not key.line:
            del self._keys[place]
        elif held is not None or waited is not None:
            self._call_in(key, now)
        return held is not None and held.expires > now

    def downgrade(self, claim: Claim, now: float) -> bool:
        held = self._held(claim, now)
        if held is None:
            return False
        held.claim = held.claim._replace(mode=Mode.SHARED)
        self._call_in(self._keys[claim.key, False], now)
        return True

    def detach(self, claim: Claim, ttl: float, now: float) -> bool:
        held = self._held(claim, now)
        if held is None:
            return False
        held.expires, held.detached = now + ttl, True
        return True

    def attach(self, detached: Claim, claim: Claim, now: float) -> Granted | None:
        if self._tombstones and self._buried(claim.id, now):
            return None
        held = self._held(claim, now) or self._held(detached, now)
        if held is None:
            return None
        # From now on the detached claim is nobody's: a late attempt of it must not get in (L3).
        self._tombstones[detached.id] = now + max(detached.ttl or 0.0, TOMBSTONE)
        if held.claim.id == claim.id:
            _prolong(held, claim, now)
            return Granted(held.raw)
        key = self._keys[claim.key, claim.mode is Mode.PERMIT]
        del key.holders[held.claim.id]
        held.claim = claim
        held.expires, held.detached = _expiry(claim, now), False
        key.holders[claim.id] = held
        return Granted(held.raw)

    def break_hold(self, name: str, raw: int | None, now: float, note: str = "") -> LockInfo | None:
        broken: list[Holder] = []
        for place in ((name, False), (name, True)):
            key = self._keys.get(place)
            if key is None:
                continue
            self._settle(key, now)
            for held in list(key.holders.values()):
                if raw is None or held.raw == raw:
                    broken.append(_shown(held, now))
                    # First: interrupted (Ctrl-C) in between, the lock is not free without a word.
                    self._tell_broken(held.claim.id, note, now)
                    del key.holders[held.claim.id]
            self._call_in(key, now)
            self._tidy(place)
        return LockInfo(name, tuple(broken)) if broken else None

    def _tell_broken(self, claim_id: str, note: str, now: float) -> None:
        self._notes = {each: kept for each, kept in self._notes.items() if kept[1] > now}
        if note:
            self._notes[claim_id] = note, now + NOTE
        self._on_notice(claim_id, Broken(note) if note else Renewal.LOST)

    def inspect(self, name: str | None, now: float) -> list[LockInfo]:
        found: dict[str, LockInfo] = {}
        for (each, permits), key in list(self._keys.items()):
            if name is None or each == name:
                self._settle(key, now)
                self._tidy((each, permits))
                if key.holders or key.line:
                    before = found.get(each, LockInfo(each))
                    found[each] = _merged(before, key, now, permits=permits)
        return list(found.values())

    def _enter(self, key: Key, claim: Claim, now: float) -> int:
        wall = self._wall()
        fellow = next(iter(key.holders.values()), None) if claim.owner is not None else None
        if fellow is not None:
            raw = fellow.raw  # a shared owner re-enters its own hold
        else:
            raw = self._last = max(self._last + 1, int(wall * 31250))
        key.holders[claim.id] = Held(claim, raw, _expiry(claim, now), wall)
        return raw

    def _held(self, claim: Claim, now: float) -> Held | None:
        key = self._keys.get((claim.key, claim.mode is Mode.PERMIT))
        held = None if key is None else key.holders.get(claim.id)
        return held if held is not None and held.expires > now else None

    def _settle(self, key: Key, now: float) -> None:
        """Drop holds that ran out and waiters that fell silent, before anything is decided."""
        for claim_id, held in list(key.holders.items()):
            if held.expires <= now:
                del key.holders[claim_id]
        while key.line:
            claim_id = next(iter(key.line))
            if key.line[claim_id].seen + SILENCE >= now and not self._gone(claim_id):
                return  # a dead one further back is dropped when it gets to the head
            del key.line[claim_id]

    def _call_in(self, key: Key, now: float) -> None:
        """Ring as many as can enter now, and nobody else."""
        self._settle(key, now)
        for claim in entering(key):
            self._ring(claim.id)

    def _tidy(self, place: tuple[str, bool]) -> None:
        key = self._keys.get(place)
        if key is not None and not key.holders and not key.line:
            del self._keys[place]

    def _retry_in(self, key: Key, claim: Claim, now: float) -> float:
        """Only the first two learn when the hold runs out: the others would be a herd (L6)."""
        if sum(1 for _ in islice(ahead(key, claim), 2)) > 1:
            return NET
        first = min((held.expires for held in key.holders.values()), default=now + NET)
        return min(NET, max(0.0, first - now))

    def _buried(self, claim_id: str, now: float) -> bool:
        for old in [each for each, until in self._tombstones.items() if until <= now]:
            del self._tombstones[old]
        return claim_id in self._tombstones


def _expiry(claim: Claim, now: float) -> float:
    return NEVER if claim.ttl is None else now + claim.ttl


def _prolong(held: Held, claim: Claim, now: float) -> None:
    """The full ttl from now on; or what is left, if that is more and the hold was detached: the
    keeper may come with its renewal just after that.
    """
    ends = _expiry(claim, now)
    held.expires = max(ends, held.expires) if held.detached else ends


def _shown(held: Held, now: float) -> Holder:
    claim = held.claim
    left = None if held.expires == NEVER else held.expires - now
    return Holder(
        "", None, claim.who, claim.label, claim.mode, held.raw, held.since, left, claim.owner
    )


def _merged(before: LockInfo, key: Key, now: float, *, permits: bool) -> LockInfo:
    holders = tuple(_shown(held, now) for held in key.holders.values())
    waiters = tuple(
        Holder("", None, claim.who, claim.label, claim.mode, owner=claim.owner)
        for claim in (each.claim for each in key.line.values())
    )
    claims = [held.claim for held in key.holders.values()] + [
        each.claim for each in key.line.values()
    ]
    limit = max(claim.permits for claim in claims) if permits else before.permits
    return LockInfo(before.name, before.holders + holders, before.waiters + waiters, limit)
