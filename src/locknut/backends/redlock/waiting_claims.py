"""Who waits for a release, and when a ring is worth asking again. Nodes ring, they never grant."""

from __future__ import annotations

from typing import Final

from locknut.backends.redlock.ballots import majority
from locknut.core.ports import Signal

GRACE: Final = 0.002
"""Seconds from the first ring until asking is worth it though the others have not rung: a release
reaches the nodes one after the other."""


class WaitingClaim:
    """One claim that stands in the lines of the nodes."""

    __slots__ = ("_needed", "claim_id", "listening", "rung", "signal")

    def __init__(self, claim_id: str, nodes: int):
        self.claim_id = claim_id
        self._needed = majority(nodes)
        self.rung: set[int] = set()
        self.signal: Signal | None = None
        self.listening = b""
        """Where it can be rung; empty until somebody listens there."""

    def channel(self) -> bytes:
        """From this question on only rings that come after it count."""
        self.rung.clear()
        return self.listening

    def told(self, node: int) -> bool:
        """A node rang; True when so many did that asking is worth it."""
        self.rung.add(node)
        return self.enough()

    def enough(self) -> bool:
        return len(self.rung) >= self._needed


class Watch:
    """A waiting claim's signal, from when its caller starts to wait until it need not any more."""

    __slots__ = ("_signal", "_waiting")

    def __init__(self, waiting: WaitingClaim, signal: Signal):
        self._waiting = waiting
        self._signal = signal

    def __enter__(self) -> Signal:
        self._waiting.signal = self._signal
        return self._signal

    def __exit__(self, *raised: object) -> None:
        self._waiting.signal = None
        self._waiting.listening = b""
