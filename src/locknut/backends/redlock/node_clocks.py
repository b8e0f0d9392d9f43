"""Whose clock is believed: a vote counts if the node has the time of a majority. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from locknut.backends.redlock.ballots import majority

STEP: Final = 200_000
"""Microseconds that a node's clock may be away from the others while its vote counts (S6). It may
step from one end of that range to the other without being noticed by a client that did not know
it before: see `recipe.GUARD`."""
_RATE: Final = 0.01
_JITTER: Final = 5_000


class NodeClock:
    """How far a node's clock is from ours: an interval, because a command takes time."""

    __slots__ = ("at", "high", "low")

    def __init__(self) -> None:
        self.low = self.high = 0.0
        self.at: float | None = None

    def observe(self, theirs: int, sent: float, received: float) -> float:
        """Take in what the node's clock showed between sending and receiving. Return by how many
        seconds at most it was set since the last time, 0 if it was not: a key on that node runs out
        that much too early or too late.
        """
        low, high = theirs - received * 1e6, theirs - sent * 1e6
        before, self.at = self.at, received
        if before is None:
            self.low, self.high = low, high
            return 0.0
        play = (received - before) * 1e6 * _RATE + _JITTER
        wide_low, wide_high = self.low - play, self.high + play
        if high < wide_low or low > wide_high:
            farthest = max(self.high - low, high - self.low)
            self.low, self.high = low, high
            return farthest / 1e6
        self.low, self.high = max(low, wide_low), min(high, wide_high)
        return 0.0


def close(one: NodeClock, other: NodeClock) -> tuple[bool, bool]:
    """Whether two clocks are known to be close, and whether they may be. The one that was heard
    earlier may have drifted since, and an answer that took long tells little.
    """
    if one.at is None or other.at is None:
        return False, True
    play = abs(one.at - other.at) * 1e6 * _RATE
    farthest = max(one.high - other.low, other.high - one.low) + play
    nearest = max(one.low - other.high, other.low - one.high) - play
    return farthest <= STEP, nearest <= STEP


def right(clocks: Sequence[NodeClock], which: int) -> bool | None:
    """Whether this node has the time that a majority has; None if that is not known yet."""
    known = [close(clocks[which], each) for each in clocks]
    needed = majority(len(clocks))
    if sum(surely for surely, _ in known) >= needed:
        return True
    return None if sum(maybe for _, maybe in known) >= needed else False


def in_step(clocks: Sequence[NodeClock]) -> bool:
    """Whether all of these are known to be close to each other. That is the usual case, and cheaper
    than `right` for each: if a majority is in step, each of its nodes has the right time.
    """
    if any(clock.at is None for clock in clocks):
        return False
    heard = [clock.at or 0.0 for clock in clocks]
    play = (max(heard) - min(heard)) * 1e6 * _RATE
    highest, lowest = max([clock.high for clock in clocks]), min([clock.low for clock in clocks])
    return highest - lowest + play <= STEP
