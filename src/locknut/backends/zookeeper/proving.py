"""Until when a session is sure to live, by what its leader has answered. Pure arithmetic.

Pings and "connected" prove nothing: a follower that is cut off answers them while the leader lets
the session expire (S9). An answer that came through the leader proves that the follower could speak
to it; and that what the follower had seen of us *before* had been told, because followers tell with
every ping of the leader, twice a tick, and a session lasts two ticks at least. So the session lives
until its timeout after something we sent a quarter of it before something the leader answered.
"""

from __future__ import annotations

from collections import deque

from locknut.core import pacing

PART = 4
"""A sync is sent every quarter of the session's timeout."""
_KEPT = 32


class Proof:
    """What is known of one session's life."""

    def __init__(self) -> None:
        self.timeout = 0.0
        """As the server granted it, in seconds."""
        self._touches: deque[float] = deque(maxlen=_KEPT)
        self._since = float("-inf")
        self._asked = float("-inf")

    def connected(self, sent: float, timeout: float) -> None:
        """A connection's first answer, whoever gives it, is the leader's word."""
        self.timeout = timeout
        self._touches.clear()
        self._touches.append(sent)
        self._since = self._asked = sent

    def lost(self) -> None:
        self._touches.clear()
        self._since = float("-inf")

    def due(self, now: float) -> bool:
        """Whether the next sync is to be sent."""
        return now - self._asked >= self.timeout / PART

    def sent(self, now: float, *, through_leader: bool) -> None:
        if through_leader:
            self._asked = now
        if not self._touches or now - self._touches[-1] >= self.timeout / (2 * PART):
            self._touches.append(now)

    def answered(self, sent: float) -> None:
        """The leader answered what was sent then."""
        latest, touches = sent - self.timeout / PART, self._touches
        while len(touches) > 1 and touches[1] <= latest:
            touches.popleft()
        if touches and touches[0] <= latest:
            self._since = max(self._since, touches[0])

    def until(self) -> float:
        """The end of what is proven, with the margin for clocks that run at different speeds."""
        return pacing.validity(self._since, self.timeout)
