"""How long an observer pauses between two listings, so that looking never becomes a load.

A listing costs the engine at most what we waited for it: its wall time without our own processor
time. The pause is so long that this is at most one part in a hundred of one core, and our own part
at most one in ten. Many locks or a slow engine are looked at less often by themselves.

Where several processors of the engine work for us at the same time, what it costs is more than what
we waited: the nodes of a Redlock are asked together, and a ZooKeeper server passes every request
from thread to thread. There many locks are looked at half as often.

On a busy machine the wall time is mostly spent in queues. So where only a few locks are listed the
pause grows step by step: their cost may be the server's (millions of other keys), and may be none.
"""

from __future__ import annotations

from collections import deque

ENGINE_SHARE = 0.01
OWN_SHARE = 0.1
SOON = 0.5
"""Seconds until a second look at what may be wrong; the pause after that is longer by as much as
this one was shorter."""
LONGEST = 300.0
"""Seconds: what is on the screen is not older than this and the time of a listing, unless somebody
wants longer pauses."""
JUDGED = 8
"""Listings that tell what one costs: at load 20 on two cores it happened that each of four had to
wait for a processor so long that the pause came to five seconds, though there were few locks."""
FEW, STEP = 200, 1.5
"""Holders and waiters that are few, and how much longer than the last a pause may be then."""
ENOUGH = 2
"""Listings from which on that is believed: four of 10,000 locks in the first seconds would cost the
engine as much as it is to give in two minutes."""
VERY_MANY, SURELY = 5000, 0.5
"""So many that even the first listing is believed if so many seconds were waited for it: to connect
is the smaller part of that, and a second one would cost the engine as much again."""
SIDE_BY_SIDE = frozenset({"redlock", "zookeeper"})
"""Engines of which two processors, or more, work for one listing at the same time."""


class RefreshRate:
    """The pause after each listing, from what the last ones cost."""

    def __init__(self, wanted: float, engine: str = "") -> None:
        self.wanted = wanted
        self._at_once = 2 if engine in SIDE_BY_SIDE else 1
        self._entries = 0
        self._waited: deque[float] = deque(maxlen=JUDGED)
        self._own: deque[float] = deque(maxlen=JUDGED)
        self._owed = 0.0
        self._most = LONGEST

    def cost(self, took: float, own: float, entries: int) -> None:
        """A listing took so long, so much of it was our own work, and so many were in it."""
        self._most = STEP * self.pause() if entries <= FEW else LONGEST
        self._entries = entries
        self._waited.append(max(0.0, took - own))
        self._own.append(own)

    def next_pause(self, *, in_doubt: bool = False) -> float:
        """How long to pause now. What is in doubt is looked at again soon, on credit: never twice
        in a row, so that over two pauses an engine is asked no more often than otherwise.
        """
        pause, owed = self.pause(), self._owed
        self._owed = pause - SOON if in_doubt and not owed and pause > SOON else 0.0
        return min(pause + owed - self._owed, max(pause, LONGEST))

    def pause(self) -> float:
        """By the cheapest of the last few: on a busy machine any of them may have had to wait, and
        the first had to connect.
        """
        waited = min(self._waited, default=0.0)
        sure = self._entries >= VERY_MANY and waited > SURELY
        if len(self._waited) < ENOUGH and not sure:
            return self.wanted
        work = waited * self._at_once if self._entries > FEW else waited
        needed = max(work / ENGINE_SHARE, min(self._own) / OWN_SHARE)
        return max(self.wanted, min(LONGEST, self._most, needed))
