"""What the answers of the nodes come to: the votes of one round, and the ballot of one claim. Pure.

Nothing here sends or waits. A `Round` takes each node's answer as it comes, even after the outcome
was decided: a late vote for a granted claim is kept (L2), one for a failed claim is given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from locknut.backends.redlock.questions import NotSent, Route


def majority(nodes: int) -> int:
    return nodes // 2 + 1


class Round:
    """One question to all nodes, and what is known of the answers."""

    __slots__ = ("answers", "asked", "decided", "failures", "needed")

    def __init__(self, asked: Sequence[int], nodes: int):
        self.asked = frozenset(asked)
        self.needed = majority(nodes)
        self.answers: dict[int, Any] = {}
        """By node: its answer, as `[what, number]`."""
        self.failures: dict[int, BaseException] = {}
        self.decided = False
        """Whether the outcome is known: later answers are noted, and change nothing."""

    @property
    def unanswered(self) -> set[int]:
        """The nodes that were asked and have not answered."""
        return set(self.asked) - self.answers.keys() - self.failures.keys()

    def without(self, nodes: Collection[int]) -> Round:
        """The same round as if these nodes had not answered."""
        view = Round((), 0)
        view.asked, view.needed, view.failures = self.asked, self.needed, self.failures
        view.answers = {at: said for at, said in self.answers.items() if at not in nodes}
        return view

    def said(self, *what: int) -> list[int]:
        return [node for node, answer in self.answers.items() if answer[0] in what]

    def enough(self, *what: int) -> bool:
        """Whether a majority of all nodes said one of these."""
        return len(self.answers) >= self.needed and len(self.said(*what)) >= self.needed

    def hopeless(self, *what: int) -> bool:
        """Whether a majority can no longer be reached."""
        left = len(self.asked) - len(self.answers) - len(self.failures)
        return left < self.needed and len(self.said(*what)) + left < self.needed

    def largest(self) -> int:
        """The largest number that any node reported."""
        return max((answer[1] for answer in self.answers.values() if answer[0] > 0), default=0)


VOTED: Final = 1
TOO_SMALL: Final = 2
JOINED: Final = 3
VOTES: Final = (VOTED, TOO_SMALL, JOINED)
HELD_BY_ANOTHER: Final = 0
QUARANTINED: Final = -1
OTHER_MAX_TTL: Final = -2
WITHDRAWN: Final = -3
NOT_COUNTED: Final = -4
"""The node voted, but its clock was set or is wrong."""
UNSURE: Final = -5
"""The node voted, but too slowly to know its clock: asked again, its vote may count."""
OTHER_SET: Final = -6
KNOW_THE_HOLDER: Final = (HELD_BY_ANOTHER, WITHDRAWN, UNSURE, *VOTES)
"""Answers of nodes that know who holds the lock. Without a majority of them nobody knows."""


def joining(votes: Round) -> bool:
    """Whether a majority may still turn out to know the owner's hold by the same number: a node
    whose vote came late knows it by the number of the first round.
    """
    numbers = [answer[1] for answer in votes.answers.values() if answer[0] == JOINED]
    most = max(map(numbers.count, numbers), default=0)
    return most > 0 and most + len(votes.unanswered) >= votes.needed


def joined_number(votes: Round) -> int | None:
    """The number of the owner's hold, if a majority of the nodes knows it by the same number."""
    numbers = [answer[1] for answer in votes.answers.values() if answer[0] == JOINED]
    return next(
        (each for each in set(numbers) if each and numbers.count(each) >= votes.needed), None
    )


def decided(votes: Round) -> bool:
    """Whether a majority voted, with the number or without it, or no longer can."""
    if votes.enough(VOTED):
        return True
    if votes.hopeless(*VOTES):
        # A node without a vote has not said that somebody else holds the lock: others may know.
        return votes.enough(*KNOW_THE_HOLDER) or votes.hopeless(*KNOW_THE_HOLDER)
    if joined_number(votes) is None and joining(votes):
        return False
    # A second round costs less than waiting for a node that may hang.
    return votes.enough(*VOTES)


def decided_again(votes: Round) -> bool:
    """The same for a claim that was granted before: its number is given up only when no majority
    can have it any more.
    """
    settled = votes.enough(VOTED) or votes.hopeless(VOTED)
    return decided(votes) and (not votes.enough(*VOTES) or settled)


def other_holders(taken: Round) -> Counter[int]:
    """The claims that have the hold which was to be attached, by how many nodes say so."""
    return Counter(taken.answers[at][1] for at in taken.said(0))


def attached(taken: Round) -> bool:
    """Whether a majority handed the hold over; or whether none can any more, and a majority agrees
    on who has it instead. A node that lost its data says that nobody has it: alone that proves
    nothing.
    """
    if taken.enough(1):
        return True
    most = max(other_holders(taken).values(), default=0)
    return taken.hopeless(1) and (
        most >= taken.needed or most + len(taken.unanswered) < taken.needed
    )


_NOT_THERE: Final = (0, 2, QUARANTINED)
"""Answers to a renewal or a release of nodes that did not have the hold (`extend`, `withdraw`)."""


def agreed(answers: Round) -> bool:
    """Whether a majority said yes, or can no longer do so."""
    return answers.enough(1) or answers.hopeless(1)


def ended(answers: Round) -> bool:
    """The same, but that no majority had the hold counts only once a majority has answered."""
    return answers.enough(1) or (answers.hopeless(1) and len(answers.answers) >= answers.needed)


def answered_by_all(answers: Round) -> bool:
    """Whether there is nobody left to wait for."""
    return not answers.unanswered


def missed(answers: Round) -> bool:
    """Whether so many nodes lack the hold that no majority has it, even if all silent nodes do."""
    return len(answers.said(*_NOT_THERE)) > len(answers.asked) - answers.needed


def renewed(answers: Round) -> bool:
    """Whether a majority has the hold, or none has, or the answers left cannot tell any more."""
    if answers.enough(1) or missed(answers):
        return True
    if not answers.hopeless(1):
        return False
    missing = len(answers.said(*_NOT_THERE))
    return missing + len(answers.unanswered) <= len(answers.asked) - answers.needed


class Ballot:
    """What is known of one claim from its first attempt to its release: who voted for it, and what
    of it may still arrive at a node.
    """

    __slots__ = (
        "_doubtful",
        "_routes",
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
        """When it first asked, in microseconds: its place in the lines of the nodes."""
        self.raw: int | None = None
        self.votes: Round | None = None
        """The last attempt. Late answers may still come in."""
        self.tries = 0
        self.splits = 0
        self._doubtful: set[int] = set()
        """Nodes that did not answer an earlier attempt."""
        self.renewal: Round | None = None
        """The last renewal. Late answers may still come in."""
        self.mended: set[int] = set()
        """Nodes that were asked to set the hold anew: a late such command must find a tombstone."""
        self._routes: dict[int, Route | None] = {}
        """By which connection it went to each node; None if it went by several."""

    def missing(self) -> set[int]:
        """The nodes that answered the last renewal and do not have this hold."""
        return set() if self.renewal is None else set(self.renewal.said(0, QUARANTINED))

    def goes_by(self, route: Route) -> None:
        """Note that this node is asked for its vote. To be called before the claim is checked for
        its end, and before the command is sent: so either the thread that ends the claim knows of
        this command, or the sender sees that the claim has ended.
        """
        if self._routes.setdefault(route.node, route) is not route:
            self._routes[route.node] = None

    def went_by(self, route: Route) -> bool:
        """Whether everything that could make this node vote went by this connection: then a command
        that goes by it now arrives after all of that, answered or not.
        """
        return self._routes.get(route.node) is route and route.node not in self.mended

    def unsettled(self) -> set[int]:
        """The nodes where a command for it may arrive after a release that goes another way."""
        late = set() if self.votes is None else late_ones(self.votes)
        return late | self._doubtful | self.mended

    def attempted(self, votes: Round) -> None:
        """Note another attempt. What was not answered before stays in doubt."""
        if self.votes is not None:
            self.doubt(late_ones(self.votes))
        self.votes = votes

    def doubt(self, nodes: Iterable[int]) -> None:
        self._doubtful.update(nodes)


def late_ones(votes: Round) -> set[int]:
    """The nodes that did not answer and may have got the question, or may still get it: a broken
    connection can deliver what was sent on it (L3).
    """
    failed = {at for at, why in votes.failures.items() if not isinstance(why, NotSent)}
    return votes.unanswered | failed
