"""Where one claim stands in line, as its session knows it, and how it is rung."""

from __future__ import annotations

from holdfast.core.ports import Signal
from holdfast.core.values import Claim


class Place:
    """One claim and its node."""

    __slots__ = (
        "behind",
        "claim",
        "doubtful",
        "epoch",
        "granted",
        "node",
        "raw",
        "retry_in",
        "signal",
        "waited",
        "watching",
    )

    def __init__(self, claim: Claim, epoch: int):
        self.claim = claim
        self.epoch = epoch
        self.node = ""
        """The name of its node; empty while it has none that is known of."""
        self.raw = 0
        self.granted = False
        self.doubtful = False
        """Whether a node may have been made of which we were not told."""
        self.waited = False
        self.retry_in = 0.0
        self.behind: str | None = None
        """Whom it found before it, last time it looked; None: it has to look."""
        self.watching = ""
        """The path on which a watch was left; empty: none that still can ring."""
        self.signal: Signal | None = None

    def begin_again(self, epoch: int) -> None:
        """Its node went with its session. An asking that was under way may have made another."""
        self.epoch = epoch
        self.node, self.raw, self.granted = "", 0, False
        self.behind, self.watching = None, ""
        self.doubtful = True

    def ring(self, event: object = None) -> None:  # noqa: ARG002  # kazoo's callbacks have one
        """From any thread: ask again."""
        self.watching = ""
        signal = self.signal
        if signal is not None:
            signal.notify()


class Watch:
    """A claim's signal, from when its caller starts to wait until it need not any more."""

    __slots__ = ("_place", "_signal")

    def __init__(self, place: Place, signal: Signal):
        self._place = place
        self._signal = signal

    def __enter__(self) -> Signal:
        self._place.signal = self._signal
        return self._signal

    def __exit__(self, *raised: object) -> None:
        self._place.signal = None
