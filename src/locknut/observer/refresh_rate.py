"""How long an observer pauses between two listings, so that looking never becomes a load.

A listing costs the engine at most what we waited for it: its wall time without our own processor
time. The pause is so long that this is at most one part in a hundred of one core, and our own part
at most one in ten. Many locks or a slow engine are looked at less often by themselves.
"""

from __future__ import annotations

from collections import deque

ENGINE_SHARE = 0.01
OWN_SHARE = 0.1
LONGEST = 300.0
"""Seconds: what is on the screen is never older than this and the time of a listing."""
JUDGED = 4
"""Listings that tell what one costs."""
ENOUGH = 2
"""Listings from which on that is believed: four of 10,000 locks in the first seconds would cost the
engine as much as it is to give in two minutes."""


class RefreshRate:
    """The pause after each listing, from what the last ones cost."""

    def __init__(self, wanted: float) -> None:
        self.wanted = wanted
        self._waited: deque[float] = deque(maxlen=JUDGED)
        self._own: deque[float] = deque(maxlen=JUDGED)

    def cost(self, took: float, own: float) -> None:
        """A listing took so long, and so much of it was our own work."""
        self._waited.append(max(0.0, took - own))
        self._own.append(own)

    def pause(self) -> float:
        """By the cheapest of the last few: on a busy machine any of them may have had to wait, and
        the first had to connect.
        """
        if len(self._waited) < ENOUGH:
            return self.wanted
        needed = max(min(self._waited) / ENGINE_SHARE, min(self._own) / OWN_SHARE)
        return max(self.wanted, min(LONGEST, needed))
