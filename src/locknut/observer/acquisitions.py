"""How many locks are acquired per second, counted from what programs wrote into the history.

A listing shows who holds a lock at that moment, and a fence follows a clock: neither tells how
often a lock was taken in between. The history does, for the programs that keep one. Each of its
entries is counted when it is read for the first time. What a program left out it has counted
itself, without the names. Where entries may have been pushed out before they were read, the number
is the least that it can be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from locknut import HistoryEntry

WINDOW: Final = 60.0
"""Seconds that a rate is of; more, where the history is read less often."""
_ACQUIRED: Final = frozenset({"granted", "handed_over"})
_LEFT_OUT: Final = re.compile(r"(\d{1,12}) (?:granted|handed_over)\b")


class Rate(NamedTuple):
    """A number per second."""

    value: float
    at_least: bool = False
    """Whether it may be more."""

    def __str__(self) -> str:
        shown = f"{self.value:.0f}" if self.value >= 10 else f"{self.value:.2g}"
        return f"\u2265 {shown}" if self.at_least else shown


class _Read(NamedTuple):
    """What was new when the history was read."""

    at: float
    acquired: Mapping[str, int]
    """By the names of the locks."""
    left_out: int
    """Acquisitions that were counted by those who did not write them."""
    gap: bool
    """Whether entries may have been pushed out since the reading before."""


class Acquisitions:
    """Of one place. Any thread may ask for a rate while another one takes entries in."""

    def __init__(self) -> None:
        self._seen: frozenset[str] = frozenset()
        """The entries of the last reading: what is read later and is not among them is new."""
        self._reads: tuple[_Read, ...] = ()
        """The first of them only tells since when the others count."""
        self.anybody_writes = False

    def take_in(self, entries: Iterable[HistoryEntry], at: float) -> None:
        """What the history has of the last while, read at this moment of the monotonic clock."""
        found = list(entries)
        new = [each for each in found if each.id not in self._seen]
        gap = bool(self._seen) and len(new) == len(found) > 0
        acquired = Counter(each.name for each in new if each.kind in _ACQUIRED)
        reads = (*self._reads, _Read(at, acquired, sum(map(_left_out, new)), gap))
        first = next(number for number, each in enumerate(reads) if each.at > at - WINDOW)
        self._seen = frozenset(each.id for each in found)
        self.anybody_writes = self.anybody_writes or bool(found)
        self._reads = reads[max(0, first - 1) :]

    def per_second(self) -> Rate | None:
        """Of all locks; None if nobody writes a history, or if it was not read twice yet."""
        return self._rate(lambda read: sum(read.acquired.values()) + read.left_out)

    def of(self, name: str) -> Rate | None:
        """Of this lock. What was left out has no name, and may have been its."""
        found = self._rate(lambda read: read.acquired.get(name, 0))
        left_out = any(each.left_out for each in self._reads[1:])
        return found and found._replace(at_least=found.at_least or left_out)

    def _rate(self, count: Callable[[_Read], int]) -> Rate | None:
        reads = self._reads
        if not self.anybody_writes or len(reads) < 2:
            return None
        number = sum(map(count, reads[1:]))
        seconds = max(reads[-1].at - reads[0].at, 1e-9)
        return Rate(number / seconds, any(each.gap for each in reads[1:]))


def _left_out(entry: HistoryEntry) -> int:
    """The acquisitions among the events that this entry stands for."""
    if entry.kind != "omitted":
        return 0
    return sum(map(int, _LEFT_OUT.findall(entry.reason)))


def together(rates: Iterable[Rate | None]) -> Rate | None:
    """Of several places: where one of them does not tell, the sum is the least that it can be."""
    told = list(rates)
    known = [each for each in told if each is not None]
    if not known:
        return None
    at_least = len(known) < len(told) or any(each.at_least for each in known)
    return Rate(sum(each.value for each in known), at_least)
