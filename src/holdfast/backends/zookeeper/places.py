"""Where one claim stands in line, as its session knows it, and how it is rung."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo.protocol.serialization import GetChildren
from kazoo.protocol.states import EventType

from holdfast.backends.zookeeper import naming
from holdfast.backends.zookeeper.naming import Node
from holdfast.core.ports import Signal
from holdfast.core.values import Claim

if TYPE_CHECKING:
    from holdfast.backends.zookeeper.session import Batch, Session


class Place:
    """One claim and its node."""

    __slots__ = (
        "_listing",
        "_session",
        "behind",
        "claim",
        "doubtful",
        "epoch",
        "folder",
        "granted",
        "line",
        "node",
        "raw",
        "retry_in",
        "signal",
        "waited",
        "watching",
    )

    def __init__(self, claim: Claim, session: Session):
        self.claim = claim
        self.epoch = session.epoch
        self.folder = naming.place_of(session.settings.root, claim)
        """The node under which its own stands."""
        self._session = session
        self._listing: Batch | None = None
        self.line: list[Node] | None = None
        """Who stood there when the one before had gone; used once."""
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
        self.behind, self.watching, self.line = None, "", None
        self.doubtful = True

    def ring(self) -> None:
        """From any thread: ask again."""
        self.watching = ""
        signal = self.signal
        if signal is not None:
            signal.notify()

    def stirred(self, event: Any) -> None:
        """On kazoo's thread: what was watched has changed. The next thing to know is who is left,
        so that is asked here, and the waiter is only woken for the answer.
        """
        if event.type == EventType.NONE or self.signal is None:
            self.ring()  # no change, but the end of the connection; or nobody waits any more
        else:
            self._listing = self._session.send([GetChildren(self.folder, None)], self._listed)

    def _listed(self) -> None:
        listing, self._listing = self._listing, None
        if listing is not None and isinstance(listing.answers[0], list):
            self.line = naming.nodes(listing.answers[0])
        self.ring()


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
