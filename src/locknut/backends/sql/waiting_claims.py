"""The claims of one client that stand in line: when each looks again, and that the client lives.

A claim looks again when it is rung, and otherwise only now and then. The first two in line look
every second: they notice a holder that died, and the second a first one that did. Those behind them
look less often. That they live is noted once for all of them, by the first that finds it due.
"""

from __future__ import annotations

from typing import Final

from locknut.backends.sql.table_port import US
from locknut.core.ports import Runtime, Signal
from locknut.core.values import Claim

NEAR: Final = 1.0
"""Seconds after which the first two in line look again without a ring."""
FAR: Final = 4.0
"""The others; with jitter, so that they do not all come at once."""
PACE: Final = 0.05
"""Where nobody rings, the first in line looks this often; the others twice as seldom each."""
BEAT: Final = 1.0
"""How often the client says that it lives, while any of its claims waits."""
SILENCE: Final = 5.0
"""A client silent for this long is dead, and its places in line are free."""
AHEAD: Final = 60.0
"""Seconds by which a time in the table may be ahead of a statement's own, which began before it
waited for its row. What is further ahead was written by a clock that was set back since, and shows
nothing."""
NOTED: Final = int((SILENCE + AHEAD) * US)
"""Microseconds that what a client has said of itself can be good for."""


class WaitingClaim:
    """One claim in line."""

    __slots__ = ("ask_at", "claim", "rung", "signal")

    def __init__(self, claim: Claim):
        self.claim = claim
        self.ask_at = 0.0
        self.rung = False
        self.signal: Signal | None = None
        """Of its caller, while that sleeps."""

    def ring(self) -> None:
        """From any thread: look again now."""
        self.rung = True
        signal = self.signal
        if signal is not None:
            signal.notify()


class WaitingClaims:
    """All of one client's."""

    def __init__(self, runtime: Runtime, *, wakes: bool):
        self._runtime = runtime
        self.wakes = wakes
        self._beat_at = 0.0
        self.by_id: dict[str, WaitingClaim] = {}

    def is_due(self, waiting: WaitingClaim) -> bool:
        """Whether it is time to look at the row again."""
        return waiting.rung or self._runtime.now() >= waiting.ask_at

    def beat_is_due(self) -> bool:
        """Whether the client has to say that it lives; who asks says it, so the others need not."""
        now = self._runtime.now()
        if now < self._beat_at:
            return False
        self._beat_at = now + BEAT
        return True

    def beat_failed(self) -> None:
        self._beat_at = 0.0

    def refused(self, claim: Claim, place: int, free_in: float) -> WaitingClaim:
        """The claim stands in line behind so many, and the lock may be free after so long."""
        waiting = self.by_id.get(claim.id)
        if waiting is None:
            if not self.by_id:  # the time of joining is as good as a first beat
                self._beat_at = self._runtime.now() + BEAT
            waiting = self.by_id[claim.id] = WaitingClaim(claim)
        waiting.ask_at = self._runtime.now() + self._pause(place, free_in)
        return waiting

    def _pause(self, place: int, free_in: float) -> float:
        jitter = 0.5 + self._runtime.random()
        if not self.wakes:
            return min(PACE * 2.0 ** min(place, 5) * jitter, NEAR)
        return max(0.0, min(NEAR, free_in)) if place < 2 else FAR * jitter

    def retry_in(self, waiting: WaitingClaim) -> float:
        """After how long its caller comes again: to look, or to say that the client lives."""
        return max(0.0, min(waiting.ask_at, self._beat_at) - self._runtime.now())

    def forget(self, claim_id: str) -> WaitingClaim | None:
        return self.by_id.pop(claim_id, None) if self.by_id else None

    def ring_all(self) -> None:
        """Whatever was to be heard may have been missed."""
        for waiting in list(self.by_id.values()):
            waiting.ring()
