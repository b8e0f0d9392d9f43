"""What may befall a memcached, and what it does to its items by itself."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.network import Faults


@dataclass(frozen=True, slots=True)
class CacheFaults(Faults):
    """What may befall a cache besides."""

    flushed: float = 0.0
    """All items are gone; the server runs on, and counts on."""
    evicted: float = 0.0
    """One item has to make room, held or not."""
    connections_cut: float = 0.0
    """Some of them, at once. What was sent is done."""
    server_stops: float = 0.0
    """SIGSTOP: what is sent is done later."""

    clock_stalls: float = 0.0
    """The thread that turns the clock is held up; the others answer."""

    @property
    def fences_outlive_both(self) -> bool:
        """What a clock that was set back does to the next start is recorded, and judged."""
        return True
