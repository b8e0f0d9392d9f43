"""What a client knows of its place in the server's line, and when a pushed grant is believed.

A grant may lie in an inbox, or in a socket, for as long as its reader was stopped. So it counts
from the sending of the last command that was answered "not yet": it was granted after that (S1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from locknut.backends.redis.recipe import DEFAULT_TTL, GRANT
from locknut.core import pacing
from locknut.core.base import Watch
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Claim, Granted

ID: Final = 32
FRESH: Final = 0.3
"""How long an answer stands for the next question of the same claim, where that is allowed."""


class WaitingClaim:
    """One claim that stands in line."""

    __slots__ = (
        "anchor",
        "ask_at",
        "claim",
        "deaf",
        "era",
        "fresh",
        "generation",
        "last_raw",
        "lined",
        "pushed",
        "retry_in",
        "signal",
    )

    def __init__(self, claim: Claim):
        self.claim = claim
        self.anchor = float("-inf")
        """When the last command was sent that was answered "not yet"."""
        self.era: object = None
        """Of which connections that was, where there are several: see `Pool.era`."""
        self.last_raw = 0
        """The last grant of this key at that moment: a message with no larger number is old."""
        self.retry_in = 0.0
        self.generation = 0
        """Counts the inboxes: each is read by one connection only (L5)."""
        self.pushed: Granted | None = None
        self.signal: Signal | None = None
        self.fresh = False
        self.lined = False
        """Whether it surely stands in line, and gets its message there: then another claim of ours
        may ask for both (`Attendance`)."""
        self.ask_at = float("-inf")
        """When it is to ask for itself all the same."""
        self.deaf = False
        """Whether a message could have been missed since it was answered "not yet"."""

    def not_yet(self, sent: float, last_raw: int, retry_in: float, era: object = None) -> None:
        self.anchor, self.era = max(self.anchor, sent), era
        self.last_raw = max(self.last_raw, last_raw)
        self.retry_in = retry_in
        self.lined = True
        if self.pushed is not None and self.pushed.raw <= self.last_raw:
            self.pushed = None  # it ran out before this question was asked

    def watched(self, signal: Signal, now: float) -> None:
        """From now on somebody waits. The claim stands in line already, and from there no message
        can be missed: the question that follows needs no command.
        """
        self.signal = signal
        self.fresh = not self.deaf and now - self.anchor < FRESH

    def move(self) -> None:
        """Take another inbox, and let the server know: the old one may have a reader (L5)."""
        self.generation += 1
        self.doubt()

    def doubt(self) -> None:
        """A message may be lost, or the place in line: the server has to be asked for this one."""
        self.fresh = self.lined = False

    def answer(self, now: float) -> Answer | None:
        """What is known without asking: the grant that was pushed, or that nothing has changed."""
        fresh, self.fresh = self.fresh, False
        pushed = self.pushed
        if pushed is not None:
            if _half_left(pushed, now):
                return pushed
            self.pushed = None
            self.doubt()
            return None
        return Busy(self.retry_in) if fresh else None

    def take_message(self, message: bytes, anchor: float) -> bool:
        """Take a message in; False if it speaks of another claim, or of an older grant."""
        raw, claim = int(message[ID:]), self.claim
        if raw <= self.last_raw or not message.startswith(claim.id.encode()):
            return False
        self.pushed = Granted(raw, min(GRANT, claim.ttl or DEFAULT_TTL), anchor)
        return True


def _half_left(pushed: Granted, now: float) -> bool:
    """Whether it is surely the grant that stands. An older one may have run out, and the same claim
    been granted once more, under a larger number: the server is asked which.
    """
    if pushed.anchor is None or pushed.ttl is None:
        return True
    return pacing.validity(pushed.anchor, pushed.ttl) - now >= pushed.ttl / 2


class RedisWatch(Watch[WaitingClaim]):
    """A watch that tells the claim when its caller began to wait, and the backend when it left."""

    __slots__ = ("_left", "_now")

    def __init__(
        self,
        waiting: WaitingClaim,
        signal: Signal,
        left: Callable[[WaitingClaim], None],
        now: Callable[[], float],
    ):
        super().__init__(waiting, signal)
        self._left = left
        self._now = now

    def __enter__(self) -> Signal:
        self._waiter.watched(self._signal, self._now())
        return self._signal

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)
        self._left(self._waiter)
