"""What a client knows of the nodes of its set, whoever of it speaks with them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from locknut.backends.redis.places import Place, Single
from locknut.backends.redis.settings import Settings
from locknut.backends.redis.wire import Welcome
from locknut.backends.redlock.ballots import (
    NOT_COUNTED,
    UNSURE,
    Clock,
    Round,
    in_step,
    majority,
    right,
)
from locknut.backends.redlock.groups import name_of
from locknut.backends.redlock.lines import Line
from locknut.core.values import Claim
from locknut.errors import BackendUnavailable, ConfigurationError, LocknutError
from locknut.runtimes.clock import now

MOST_DEBTS: Final = 1000
_AGAIN: Final = (0.05, 0.2, 1.0, 2.0)
"""Seconds until a node that could not be reached is tried again."""


def in_words(error: BaseException) -> str:
    """Why, without where: that is told beside it."""
    return error.message if isinstance(error, LocknutError) else str(error)


class NotSent(BackendUnavailable):
    """Nothing went out to this node, so there is nothing to take back."""


class Node:
    """One server of the set."""

    def __init__(self, at: int, place: Place, max_ttl: float):
        self.at = at
        self.place = place
        self.name = name_of(place)
        """What may be shown."""
        self.settings = place.settings
        self._keep = max_ttl * 2
        self._debts: deque[tuple[Claim, float]] = deque(maxlen=MOST_DEBTS)
        """Claims that it may have a command of, or a key, and which nobody else will take back."""
        self.trouble: BaseException = ConnectionError("not tried yet")
        """Why it could not be reached when that was last tried."""
        self._failed = 0
        self._again = 0.0
        self._distrusted_until = 0.0
        self.silent = False
        """Whether it was waited for in vain, and has not answered since."""

    def reachable(self) -> bool:
        """Whether it is worth trying to connect."""
        return now() >= self._again

    def unreached(self, why: BaseException) -> None:
        self.trouble = why
        self.silent = True
        self._again = now() + _AGAIN[min(self._failed, len(_AGAIN) - 1)]
        self._failed += 1

    def reached(self) -> None:
        self._failed = 0
        self._again = 0.0

    def met(self, welcome: Welcome, kind: bytes = b"standalone") -> None:
        """What it said of itself: a replica or a node that forgets keys is no node of a set."""
        place = self.name
        if kind == b"cluster":
            message = (
                f"{place} belongs to a cluster: a node must be a single master, for a script sees "
                "one slot, and not whether its server lost data"
            )
            raise ConfigurationError(message, backend="redlock")
        if kind == b"sentinel":
            message = (
                f"{place} is a Sentinel: give the whole group as one node, by locknut.redlock(["
                '"redis+sentinel://s1,s2,s3/service", ...], failover=True); it loses something'
            )
            raise ConfigurationError(message, backend="redlock")
        if welcome.role == "replica":
            message = f"{place} is a read-only replica: a node must be a master of its own"
            raise ConfigurationError(message, backend="redlock")
        if welcome.evicts:
            message = (
                f"{place} may evict keys (maxmemory-policy {welcome.evicts}): it would forget its "
                "votes; a node needs noeviction"
            )
            raise ConfigurationError(message, backend="redlock")

    def refusal(self, why: str = "") -> LocknutError:
        """What is told instead of asking it."""
        if isinstance(self.trouble, ConfigurationError):
            return self.trouble
        reason = why or f"could not be reached: {in_words(self.trouble)}"
        return NotSent(reason, backend="redlock")

    def owe(self, claim: Claim, asked: float) -> None:
        """It was to be taken back then."""
        self._debts.append((claim, asked + self._keep))

    @property
    def in_debt(self) -> bool:
        return bool(self._debts)

    def debts(self) -> Iterator[Claim]:
        """What is to be taken back there, now that it can be reached. Each is struck off when the
        next one is asked for: if whoever takes it back is interrupted, somebody else does it again.
        """
        with suppress(IndexError):  # other threads strike off as well
            for _ in range(len(self._debts)):  # what is added meanwhile is for another time
                debt = claim, until = self._debts[0]
                if now() < until:
                    yield claim
                with suppress(ValueError):
                    self._debts.remove(debt)

    def distrust(self, seconds: float) -> None:
        self._distrusted_until = now() + seconds

    def trusted(self, at: float | None = None) -> bool:
        return (now() if at is None else at) >= self._distrusted_until


class Ballot:
    """What is known of one claim, from its first question to its release."""

    __slots__ = (
        "_doubtful",
        "_lines",
        "mended",
        "missing",
        "raw",
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
        self.missing: set[int] = set()
        """Nodes that answered a renewal, and have not got this hold."""
        self.mended: set[int] = set()
        """Nodes that were asked to set it anew: a late such command must find a tombstone."""
        self._lines: dict[int, Line | None] = {}
        """By which connection it went to each node; None where there were several."""

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


class Set:
    """The nodes, their clocks, and the claims under way: one for all connections of a Locks."""

    def __init__(self, settings: Sequence[Settings], max_ttl: float, places: Sequence[Place] = ()):
        found = places or [Single(each) for each in settings]
        self.nodes = [Node(at, each, max_ttl) for at, each in enumerate(found)]
        self.clocks = [Clock() for _ in found]
        self.ballots: dict[str, Ballot] = {}
        self.largest = 0
        """The largest number that nodes accepted or told of: the next proposal is above it."""
        self._mutex = threading.Lock()

    def fell_silent(self, nodes: Iterable[int]) -> None:
        """These were waited for as long as anybody is."""
        for at in nodes:
            self.nodes[at].silent = True

    def silent(self, answers: Round) -> bool:
        """Whether of those asked so many are known not to answer that the rest is no majority."""
        known = [node.at for node in self.nodes if node.silent]
        spare = len(self.nodes) - answers.needed
        return len(known) > spare and len(answers.out.intersection(known)) > spare

    def heard(self, node: int, clock: int, sent: float, received: float, max_ttl: float) -> None:
        """Take in a node's clock: one that was set is not believed for a while."""
        self.nodes[node].silent = False
        with self._mutex:
            if not self.clocks[node].told(clock, sent, received):
                self.nodes[node].distrust(max_ttl * 1.02)

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
