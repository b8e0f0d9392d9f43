"""What a client knows of one node of its set, whoever of it speaks with it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from locknut.backends.redlock.ballots import (
    NOT_COUNTED,
    OTHER_MAX_TTL,
    OTHER_SET,
    QUARANTINED,
    UNSURE,
    VOTES,
    Ballot,
    Round,
    majority,
)
from locknut.backends.redlock.node_clocks import NodeClock, in_step, right
from locknut.backends.redlock.questions import NotSent
from locknut.core.values import Claim
from locknut.drivers.redis.endpoints import Endpoint, FixedEndpoint
from locknut.drivers.redis.settings import Settings
from locknut.drivers.redis.wire import Welcome
from locknut.errors import ConfigurationError, LocknutError
from locknut.runtimes.clock import now

MOST_DEBTS: Final = 1000
_AGAIN: Final = (0.05, 0.2, 1.0, 2.0)
"""Seconds until a node that could not be reached is tried again."""
_TOLERATED: Final = 0.25
"""Seconds by which a clock may be set, altogether, while a lock is held: half of what nodes keep
holds for longer than anybody counts on (`recipe.GUARD`)."""


def in_words(error: BaseException) -> str:
    """Why, without where: that is told beside it."""
    return error.message if isinstance(error, LocknutError) else str(error)


def name_of(place: Endpoint) -> str:
    """What tells one node from another."""
    service: str = getattr(place, "service", "")
    return f"{service} behind Sentinels" if service else place.settings.place


class Node:
    """One server of the set."""

    def __init__(self, at: int, place: Endpoint, max_ttl: float):
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
        self.address: tuple[int, Any] | None = None
        """Where its name led to, as long as it can be reached there."""
        self.last_address: tuple[int, Any] | None = None
        """Where it last did."""
        self._failed = 0
        self._again = 0.0
        self._memory = max_ttl * 1.02
        self._steps: list[tuple[float, float]] = []
        """When its clock was set, and by how much."""
        self._distrusted_until = 0.0
        self.differs: tuple[int, int] | None = None
        """What it said of its other clients: that they have another `max_ttl`, or list of nodes."""
        self.silent = False
        """Whether it was waited for in vain, and has not answered since."""
        self.waited = 0.0
        """For how many seconds, since it last answered."""

    def reachable(self) -> bool:
        """Whether it is worth trying to connect."""
        return now() >= self._again

    def unreached(self, why: BaseException) -> None:
        self.trouble = why
        self.silent = True
        self.address = None
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

    def stepped(self, seconds: float) -> None:
        """Its clock was set: if by too much while a lock may have been held, what it knows about
        expiries is worth nothing.
        """
        at = now()
        recent = [each for each in self._steps if each[0] > at - self._memory]
        self._steps = [*recent, (at, seconds)]
        if sum(size for _, size in self._steps) > _TOLERATED:
            self._distrusted_until = at + self._memory

    def trusted(self, at: float | None = None) -> bool:
        return (now() if at is None else at) >= self._distrusted_until


class NodeSet:
    """The nodes, their clocks, and the claims under way: one for all connections of a Locks."""

    def __init__(
        self, settings: Sequence[Settings], max_ttl: float, places: Sequence[Endpoint] = ()
    ):
        found = places or [FixedEndpoint(each) for each in settings]
        self.nodes = [Node(at, each, max_ttl) for at, each in enumerate(found)]
        self.clocks = [NodeClock() for _ in found]
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
