"""What is known of one claim while it is under way: who voted, and what may still arrive."""

from __future__ import annotations

from collections.abc import Iterable

from locknut.backends.redlock.ballots import QUARANTINED, Round
from locknut.backends.redlock.lines import Line
from locknut.backends.redlock.nodes import NotSent


class Ballot:
    """What is known of one claim, from its first question to its release."""

    __slots__ = (
        "_doubtful",
        "_lines",
        "mended",
        "raw",
        "renewal",
        "since",
        "splits",
        "tries",
        "votes",
    )

    def __init__(self, since: int):
        self.since = since
        """Since when it asks, in microseconds: its place in the lines."""
        self.raw: int | None = None
        self.votes: Round | None = None
        """The last attempt; what it was not answered may still come in."""
        self.tries = 0
        self.splits = 0
        self._doubtful: set[int] = set()
        """Nodes that did not answer some attempt before."""
        self.renewal: Round | None = None
        """The last renewal; what it was not answered may still come in."""
        self.mended: set[int] = set()
        """Nodes that were asked to set it anew: a late such command must find a tombstone."""
        self._lines: dict[int, Line | None] = {}
        """By which connection it went to each node; None where there were several."""

    def missing(self) -> set[int]:
        """Nodes that answered the last renewal, and have not got this hold."""
        return set() if self.renewal is None else set(self.renewal.said(0, QUARANTINED))

    def goes_by(self, line: Line) -> None:
        """A vote of this node is asked for. To be told before it is sent, and before it is looked
        whether the claim is over: so whoever ends it meanwhile knows of this, or this of the end.
        """
        if self._lines.setdefault(line.node, line) is not line:
            self._lines[line.node] = None

    def went_by(self, line: Line) -> bool:
        """Whether all that could make this node vote went by this connection: then what goes by it
        now arrives behind all of it, answered or not.
        """
        return self._lines.get(line.node) is line and line.node not in self.mended

    def unsettled(self) -> set[int]:
        """Nodes at which something of it may arrive after its release, if that goes another way."""
        late = set() if self.votes is None else late_ones(self.votes)
        return late | self._doubtful | self.mended

    def attempted(self, votes: Round) -> None:
        """It was asked for once more; what was not answered before stays so."""
        if self.votes is not None:
            self.doubt(late_ones(self.votes))
        self.votes = votes

    def doubt(self, nodes: Iterable[int]) -> None:
        self._doubtful.update(nodes)


def late_ones(votes: Round) -> set[int]:
    """Nodes that did not answer, and may have the question, or get it yet: a connection that broke
    may deliver what was sent on it (L3).
    """
    failed = {at for at, why in votes.failures.items() if not isinstance(why, NotSent)}
    return votes.out | failed
