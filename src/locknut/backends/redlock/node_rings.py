"""Which claims wait for a release, and how many rings are worth another attempt.

Nodes ring the claim that is first in their line; they never grant by themselves.
"""

from __future__ import annotations

from typing import Final

from locknut.backends.redlock.ballots import majority
from locknut.core.base import Watch
from locknut.core.ports import Signal

GRACE: Final = 0.002
"""Seconds from the first ring until another attempt is worth it though fewer than a majority rang:
a release reaches the nodes one after the other."""


class WaitingClaim:
    """One claim that stands in the lines of the nodes."""

    __slots__ = ("_needed", "claim_id", "listening", "rung", "signal")

    def __init__(self, claim_id: str, nodes: int):
        self.claim_id = claim_id
        self._needed = majority(nodes)
        self.rung: set[int] = set()
        self.signal: Signal | None = None
        self.listening = b""
        """The channel on which nodes can ring it; empty while nobody listens there."""

    def channel(self) -> bytes:
        """The channel to name in the next attempt. Only rings after that attempt count."""
        self.rung.clear()
        return self.listening

    def rung_by(self, node: int) -> bool:
        """Note that a node rang. Return whether enough did for another attempt."""
        self.rung.add(node)
        return self.enough()

    def enough(self) -> bool:
        return len(self.rung) >= self._needed


class RedlockWatch(Watch[WaitingClaim]):
    """A watch that also forgets where the claim could be rung."""

    __slots__ = ()

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._waiter.listening = b""
