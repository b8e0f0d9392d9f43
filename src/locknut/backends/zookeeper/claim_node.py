"""One claim and its node: where it stands in line, as the session knows it, and how it is rung."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoAuthError
from kazoo.protocol.serialization import Exists, GetChildren, GetData
from kazoo.protocol.states import EventType

from locknut.backends.zookeeper import node_names
from locknut.backends.zookeeper.node_names import Node
from locknut.core.ports import Signal
from locknut.core.values import Claim, Mode

if TYPE_CHECKING:
    from locknut.backends.zookeeper.requests import Batch
    from locknut.backends.zookeeper.session import Session


class ClaimState:
    """One claim and its node."""

    __slots__ = (
        "_session",
        "behind",
        "claim",
        "epoch",
        "folder",
        "folders",
        "granted",
        "line",
        "node",
        "outcome_unknown",
        "raw",
        "retry_in",
        "signal",
        "trouble",
        "watching",
    )

    def __init__(self, claim: Claim, session: Session):
        self.claim = claim
        self.epoch = session.epoch
        self.folders = node_names.folders_of(session.settings.root, claim)
        """Where its node stands: first while it waits, last when it holds."""
        self.folder = self.folders[0]
        """Where it stands now."""
        self._session = session
        self.line: list[Node] | None = None
        """The line as it was listed when the node before ours had gone; used once."""
        self.node = ""
        """The name of its node; empty while it has none that is known of."""
        self.raw = 0
        self.granted = False
        self.outcome_unknown = False
        """Whether a node may have been made, or given another name, without our knowing it."""
        self.retry_in = 0.0
        self.behind: str | None = None
        """The node that stood before ours at the last look; None: look again."""
        self.watching = ""
        """The path on which a watch was left; empty if no watch can ring any more."""
        self.trouble: Exception | None = None
        """Why the node could not be watched; None if it could, or if it is gone."""
        self.signal: Signal | None = None

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.node}"

    def path_of(self, node: Node) -> str:
        """The path of another node in the line, or among the leases, of this key."""
        return f"{self.folders[-1 if node.mode is Mode.PERMIT else 0]}/{node.name}"

    def begin_again(self, epoch: int) -> None:
        """Its node went with its session. A request that was under way may have made another
        one.
        """
        self.epoch = epoch
        self.node, self.raw, self.granted, self.folder = "", 0, False, self.folders[0]
        self.behind, self.watching, self.line = None, "", None
        self.outcome_unknown = True

    def stand(self, name: str, raw: int) -> None:
        """Note that its node has that name. `outcome_unknown` ends last, because we may be
        interrupted in between (Ctrl-C).
        """
        found = node_names.node(name)
        holds = found is not None and found.mode is Mode.PERMIT
        self.folder = self.folders[-1 if holds else 0]
        self.node, self.raw = name, raw
        self.outcome_unknown = False

    def question(self) -> Exists | GetChildren:
        """Ask for its node. While a downgrade is not answered the node has one of two names, so the
        line is asked for instead.
        """
        if self.outcome_unknown:
            return GetChildren(self.folder, None)
        return Exists(self.path, None)

    def is_there(self, asked: Exists | GetChildren, answer: Any) -> bool | None:
        """What the answer to `question` says; None if the node got another name meanwhile."""
        if isinstance(asked, GetChildren):
            return any(each.id == self.claim.id for each in node_names.listed([answer]))
        if answer is not None:
            return True
        return None if self.outcome_unknown or asked.path != self.path else False

    def ring(self) -> None:
        """Wake the waiter, from any thread, so that it asks again."""
        self.watching = ""
        signal = self.signal
        if signal is not None:
            signal.notify()

    def watch(self, behind: str) -> None:
        """Be rung when that node goes, or if it is gone already. This reads the node, because a
        read leaves no watch on a node that does not exist. Nobody waits for the answer.
        """
        self.forget_watch()
        path = self.watching = f"{self.folder}/{behind}"
        request = GetData(path, self.stirred)
        self._session.send([request], lambda batch: self._heard(path, batch))

    def forget_watch(self) -> None:
        path, self.watching = self.watching, ""
        if path:
            self._session.unwatch(path, self.stirred)

    def _heard(self, path: str, asked: Batch) -> None:
        """Called on kazoo's thread, like all that follows."""
        if self.watching != path:
            self._session.unwatch(path, self.stirred)  # we gave this watch up before it was there
        elif asked.failed:
            (error,) = asked.answers
            self.trouble = error if isinstance(error, NoAuthError) else None
            self.ring()

    def stirred(self, event: Any) -> None:
        """What was watched has changed. The waiter needs to know who is left, so we ask that here
        and wake the waiter with the answer.
        """
        if event.type == EventType.NONE or self.signal is None:
            self.ring()  # the connection ended, or nobody waits any more
        else:
            self._session.send([GetChildren(each, None) for each in self.folders], self._listed)

    def _listed(self, listing: Batch) -> None:
        if not listing.failed:
            self.line = node_names.listed(listing.answers)
        self.ring()
