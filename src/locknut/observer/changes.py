"""What happened between two listings: who came, who left, and how each hold ended.

Only what lasts until a listing is seen: a hold that began and ended between two of them is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from locknut import Holder, LockInfo
from locknut.core.families import family
from locknut.observer.sightings import Ending, Identity, Span

Key = tuple[str, Identity]
EARLY = 0.1
"""The part of a ttl by which a holder, or its clock, may be early."""


class OpenHold:
    """A hold that goes on, and the signs by which its end will be judged."""

    __slots__ = ("ending", "family", "longest_ttl", "note", "seen_at", "span", "ttl_left")

    def __init__(self, span: Span, now: float) -> None:
        self.span = span
        self.family = family(span.name)
        self.longest_ttl = 0.0
        self.ending = Ending.OPEN
        """How it will have ended, where somebody said so."""
        self.note = ""
        self.see(span.holder, now)

    def see(self, holder: Holder, now: float) -> None:
        self.span = self.span._replace(holder=holder)
        self.seen_at, self.ttl_left = now, holder.ttl_left
        self.longest_ttl = max(self.longest_ttl, holder.ttl_left or 0.0)

    @property
    def unrenewed(self) -> bool:
        """Whether the last renewals are missing: a holder renews when a third of the ttl is gone,
        so that less than half of it is left only where it failed to.
        """
        return self.ttl_left is not None and self.ttl_left < self.longest_ttl / 2

    def ran_out(self, now: float) -> bool:
        """Whether nobody renewed it to the end: its holder gives it up a little before that."""
        if self.ttl_left is None or not self.unrenewed:
            return False
        return now >= self.seen_at + self.ttl_left - EARLY * self.longest_ttl

    def ended_at(self, now: float, next_hold: float | None) -> float:
        """When it ended, between two listings: when the next one began, or when its ttl was over;
        where neither is known, half-way.
        """
        if next_hold is not None and self.seen_at <= next_hold <= now:
            return next_hold
        if self.ttl_left is not None and self.ran_out(now):
            return min(now, self.seen_at + self.ttl_left)
        return max(self.span.since, (self.seen_at + now) / 2)


class Changes(NamedTuple):
    """What one listing showed that the last one did not."""

    began_holds: list[Span]
    ended_holds: list[Span]
    began_waits: list[Span]
    ended_waits: list[Span]


class Tracker:
    """The holds and waits that go on, from one listing to the next."""

    def __init__(self) -> None:
        self.holds: dict[Key, OpenHold] = {}
        self.waits: dict[Key, Span] = {}

    def explain(self, name: str, fence: int, ending: Ending, note: str = "") -> bool:
        """Somebody knows how this hold ended: the next listing that lacks it will say so.

        False if no listing has shown it. A fence may count hand-overs, which no listing shows.
        """
        for (known, identity), each in self.holds.items():
            if known == name and identity.raw == fence // each.span.holder.fence_step:
                if each.ending is Ending.OPEN:  # who broke it speaks first, who lost it later
                    each.ending, each.note = ending, note
                return True
        return False

    def take_in(self, locks: Sequence[LockInfo], now: float, *, after_silence: bool) -> Changes:
        """A listing, and whether the engine could not be asked before it."""
        holds = dict(_identities((info.name, info.holders) for info in locks))
        waits = dict(_identities((info.name, info.waiters) for info in locks))
        began_holds = [
            self._begin_hold(key, holder, now)
            for key, holder in holds.items()
            if key not in self.holds
        ]
        next_holds = {each.name: each.since for each in began_holds}
        ended_holds = [
            self._end_hold(key, now, next_holds.get(key[0]), after_silence=after_silence)
            for key in self.holds.keys() - holds.keys()
        ]
        for key, holder in holds.items():
            self.holds[key].see(holder, now)
        granted = {(each.name, Identity.of(each.holder).person): each.since for each in began_holds}
        left = self.waits.keys() - waits.keys()
        ended_waits = [self._end_wait(key, now, granted) for key in left]
        began_waits = []
        for key, holder in waits.items():
            if key not in self.waits:
                self.waits[key] = Span(key[0], holder, _since(holder, now))
                began_waits.append(self.waits[key])
        return Changes(began_holds, ended_holds, began_waits, ended_waits)

    def _begin_hold(self, key: Key, holder: Holder, now: float) -> Span:
        span = Span(key[0], holder, _since(holder, now))
        self.holds[key] = OpenHold(span, now)
        return span

    def _end_hold(
        self, key: Key, now: float, next_hold: float | None, *, after_silence: bool
    ) -> Span:
        over = self.holds.pop(key)
        if over.ending is not Ending.OPEN:
            ending = over.ending
        elif over.ran_out(now):
            ending = Ending.EXPIRED
        else:
            ending = Ending.UNSEEN if after_silence else Ending.RELEASED
        until = over.ended_at(now, next_hold)
        return over.span._replace(until=until, ending=ending, note=over.note)

    def _end_wait(self, key: Key, now: float, granted: dict[Key, float]) -> Span:
        """It ended in a grant if the same person holds the lock now."""
        over = self.waits.pop(key)
        began = granted.get((key[0], key[1].person))
        if began is None:
            return over._replace(until=now, ending=Ending.LEFT)
        return over._replace(until=max(over.since, began), ending=Ending.GRANTED)


def _identities(found: Iterable[tuple[str, tuple[Holder, ...]]]) -> Iterator[tuple[Key, Holder]]:
    for name, holders in found:
        for each in holders:
            yield (name, Identity.of(each)), each


def _since(holder: Holder, now: float) -> float:
    """By the engine's clock where it says so, but never in our future."""
    return now if holder.since is None else min(now, holder.since)
