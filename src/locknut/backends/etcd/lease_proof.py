"""Until when a lease is sure to live, by what the cluster has answered. Pure arithmetic.

A keep-alive is answered by one member, the leader, by itself. A leader that was cut off from the
others answers too, while they have chosen another one, which lets the lease run out. So the answer
alone is never believed. It is believed once a transaction that was sent after it is answered, and
both answers name the same term:

* The transaction was accepted by a majority, in this term or an earlier one, after the keep-alive.
  So no leader of a later term had been chosen by then.
* The keep-alive was done by the leader of this term or a later one, and so of this one.

A leader that is chosen later gives every lease its full time again, so it makes nothing shorter. A
new lease is a write by itself: it counts from when it was asked for.

The time that counts is the one that the cluster granted, from when the question was *sent*.
"""

from __future__ import annotations

from typing import NamedTuple

from locknut.core import pacing

PART = 4
"""A lease is kept alive every quarter of its time."""
_NEVER = float("-inf")


class _Kept(NamedTuple):
    """A keep-alive that was answered."""

    sent: float
    at: float
    ttl: float
    term: int


class LeaseProof:
    """What is known of one lease's life. Its owner sees to it that one thread at a time is here."""

    def __init__(self, sent: float, ttl: float):
        self.ttl = ttl
        """As the cluster granted it, in seconds."""
        self._until = pacing.validity(sent, ttl)
        self._asked = sent
        """When the last keep-alive was sent, if it was not in vain."""
        self.unproven: list[_Kept] = []
        """Keep-alives that were answered, and not proven yet by a transaction."""

    def until(self) -> float:
        """The end of what is proven, with the margin for clocks that run at different speeds."""
        return self._until

    def due(self) -> float:
        """When the next keep-alive is to be sent."""
        return self._asked + self.ttl / PART

    def asks(self, now: float) -> bool:
        """Whether a keep-alive is due. The caller sends it: nobody else does meanwhile."""
        if now < self.due():
            return False
        self._asked = now
        return True

    def hurry(self) -> None:
        """The last keep-alive was not answered, or not by somebody who knows: one is due."""
        self._asked = _NEVER

    def kept(self, sent: float, at: float, ttl: float, term: int) -> None:
        """A keep-alive that was sent then was answered, at that time."""
        self.unproven.append(_Kept(sent, at, ttl, term))

    def committed(self, sent: float, term: int) -> None:
        """A transaction that was sent then was answered."""
        for kept in [each for each in self.unproven if each.at <= sent]:
            if kept.term == term:
                self._until = max(self._until, pacing.validity(kept.sent, kept.ttl))
            if kept.term <= term:  # of an earlier term it will never be known who answered it
                self.unproven.remove(kept)
                if kept.term < term:
                    self.hurry()
