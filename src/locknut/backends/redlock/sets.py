"""The nodes of one set as a client knows them: whose clock is believed, and who votes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

from locknut.backends.redlock.ballots import (
    NOT_COUNTED,
    OTHER_MAX_TTL,
    OTHER_SET,
    QUARANTINED,
    UNSURE,
    VOTES,
    Clock,
    Round,
    in_step,
    majority,
    right,
)
from locknut.backends.redlock.claims import Ballot
from locknut.backends.redlock.nodes import Node
from locknut.drivers.redis.endpoints import Endpoint, FixedEndpoint
from locknut.drivers.redis.settings import Settings
from locknut.runtimes.clock import now


class Set:
    """The nodes, their clocks, and the claims under way: one for all connections of a Locks."""

    def __init__(
        self, settings: Sequence[Settings], max_ttl: float, places: Sequence[Endpoint] = ()
    ):
        found = places or [FixedEndpoint(each) for each in settings]
        self.nodes = [Node(at, each, max_ttl) for at, each in enumerate(found)]
        self.clocks = [Clock() for _ in found]
        self.ballots: dict[str, Ballot] = {}
        self.attaching: set[str] = set()
        """Claims that are to take over a detached hold; a release takes them out."""
        self.largest = 0
        """The largest number that nodes accepted or told of: the next proposal is above it."""
        self.quarantined: set[int] = set()
        """Nodes that said they give no vote yet: somebody has to watch them."""
        self._mutex = threading.Lock()

    def waited_in_vain(self, nodes: Iterable[int], seconds: float, most: float) -> None:
        """For these; whoever does not answer for that long, altogether, is not waited for again."""
        for at in nodes:
            node = self.nodes[at]
            node.waited += seconds
            node.silent = node.silent or node.waited >= most * 0.99

    def silent(self, answers: Round) -> bool:
        """Whether of those asked so many are known not to answer that the rest is no majority."""
        known = [node.at for node in self.nodes if node.silent]
        spare = len(self.nodes) - answers.needed
        return len(known) > spare and len(answers.out.intersection(known)) > spare

    def heard(self, node: int, clock: int, sent: float, received: float) -> None:
        """Take in a node's clock: one that was set is not believed for a while."""
        self.nodes[node].silent, self.nodes[node].waited = False, 0.0
        with self._mutex:
            step = self.clocks[node].told(clock, sent, received)
            if step:
                self.nodes[node].stepped(step)

    def voted(self, node: int, answer: Sequence[int]) -> None:
        """Take in why a node gave no vote, if it did not: also where that comes late."""
        what = answer[0]
        if what in VOTES and not self.quarantined and self.nodes[node].differs is None:
            return  # nearly always
        with self._mutex:
            if what == QUARANTINED:
                self.quarantined.add(node)
            else:
                self.quarantined.discard(node)
            differs = what in (OTHER_MAX_TTL, OTHER_SET)
            self.nodes[node].differs = (what, answer[1]) if differs else None

    def differences(self) -> list[tuple[int, int]]:
        return [node.differs for node in self.nodes if node.differs is not None]

    def majority_time(self) -> int:
        """What the clocks show that a majority has, in microseconds, at the most; 0: not known."""
        at = now() * 1e6
        with self._mutex:
            known = [each.high for node, each in enumerate(self.clocks) if right(self.clocks, node)]
        return int(max(known) + at) if known else 0

    def in_step(self, nodes: Sequence[int]) -> bool:
        """Whether nothing is to be said against the votes of these: they are a majority, too."""
        if len(nodes) < majority(len(self.nodes)):
            return False
        at = now()
        with self._mutex:
            trusted = [self.nodes[node].trusted(at) for node in nodes]
            return False not in trusted and in_step([self.clocks[node] for node in nodes])

    def doubts(self, node: int) -> int:
        """What a vote of this node is worth: nothing to object, or what to take it for instead."""
        with self._mutex:
            agrees = self.nodes[node].trusted() and right(self.clocks, node)
        if agrees is None:
            return UNSURE
        return 0 if agrees else NOT_COUNTED

    def propose(self, clock: int) -> int:
        """A number above everything seen, or the time in steps of 32 microseconds. It counts as
        seen when it is accepted: nodes refuse one that is far ahead of them.
        """
        with self._mutex:
            return max(self.largest + 1, clock)

    def seen(self, number: int) -> None:
        with self._mutex:
            self.largest = max(self.largest, number)
