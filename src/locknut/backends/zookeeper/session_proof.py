"""Until when a session is sure to live, by what the ensemble has answered. Pure arithmetic.

Pings and "connected" prove nothing: a follower that is cut off answers them while the leader lets
the session expire (S9). A leader that is cut off answers `sync` and takes back a session all alone,
while the majority has another leader. So three answers in a row prove that the session lives until
its timeout after a request, which is called a touch here, was sent:

1. The touch is answered: the server that we are connected to has heard of us.
2. A write that was sent a quarter of the timeout later is answered. A majority has accepted it, so
   whatever leader comes next begins to count after that. In that quarter the leader has pinged our
   server, as it does twice a tick (a session lasts two ticks at least). Messages between servers
   keep their order, so our server has replied to that ping with what it had heard of us.
3. The leader answers once more: the reply to the ping has arrived before this question did.

A request that takes back a session after a reconnect goes to the leader itself: for it one answered
write is enough. A new session is a write by itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from locknut.core import pacing

PART = 4
"""A write is sent every quarter of the session's timeout."""
_NEVER = float("-inf")


def _nobody() -> None:
    """Nobody is asked."""


class Proof:
    """What is known of one session's life. All but `due`, `beats` and `until` is the business of
    the connection's thread.
    """

    def __init__(self, ask_leader: Callable[[], None] = _nobody) -> None:
        self.timeout = 0.0
        """As the server granted it, in seconds."""
        self._ask_leader = ask_leader
        """Called when the third answer is all that is missing."""
        self._since = _NEVER
        """When the touch was sent that is proven."""
        self._next = _NEVER
        """When the next write is due."""
        self._joined = _NEVER
        """When this connection asked for the session."""
        self._touches: deque[tuple[float, float]] = deque()
        """When they were sent and answered."""
        self._touched = _NEVER
        self._written = _NEVER
        """When the last write was sent that was answered."""
        self._accepted: deque[tuple[float, float]] = deque()
        """Touches for which the third answer is missing, and when the second came."""

    def connected(self, sent: float, at: float, timeout: float, new: bool) -> None:
        """A connection was answered; the answers to another one are of no use for it. What was
        proven stays true, but never for longer than the timeout of then or that of now.
        """
        self._since = sent if new else self._since + min(self.timeout, timeout) - timeout
        self.timeout = timeout
        self._joined = self._touched = sent
        self._written = _NEVER
        self._touches.clear()
        self._accepted.clear()
        self._next = at + timeout / PART if new else _NEVER

    def lost(self) -> None:
        """The session is over."""
        self._since = self._joined = _NEVER
        self._touches.clear()
        self._accepted.clear()

    def due(self) -> float:
        """When the next write is to be sent, if only for its answer."""
        return self._next

    def wants(self, now: float) -> bool:
        """Whether a write may prove more than the last one did."""
        return now - self._written >= self.timeout / (2 * PART)

    def beats(self, now: float) -> None:
        """Such a write is sent now."""
        self._next = now + self.timeout / PART

    def touched(self, sent: float, at: float) -> None:
        """Our server answered, at that time, what was sent then."""
        if sent - self._touched >= self.timeout / (2 * PART):
            self._touched = sent
            if not self._touches:  # a write before that would prove nothing
                self._next = max(self._next, at + self.timeout / PART)
            self._touches.append((sent, at))

    def answered(self, sent: float, at: float, *, majority: bool) -> None:
        """The leader answered what was sent then: alone, or for a majority."""
        accepted, touches = self._accepted, self._touches
        while accepted and accepted[0][1] <= sent:
            self._since = max(self._since, accepted.popleft()[0])
        if not majority:
            return
        self._written = max(self._written, sent)
        self._since = max(self._since, self._joined)
        quarter, heard = self.timeout / PART, _NEVER
        while touches and touches[0][1] + quarter <= sent:
            heard, _ = touches.popleft()
        if heard > self._since:
            accepted.append((heard, at))
            self._next = at + quarter
            self._ask_leader()

    def until(self) -> float:
        """The end of what is proven, with the margin for clocks that run at different speeds."""
        return pacing.validity(self._since, self.timeout)
