"""What a client knows of the nodes of its set, shared by all its connections.

`Node` is one server: whether it can be reached, what it owes, whether its clock was set. `NodeSet`
is all of them: whose vote counts, and which number to propose next.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from locknut.drivers.redis.endpoints import Endpoint
from locknut.drivers.redis.wire import Welcome
from locknut.errors import ConfigurationError, LocknutError

MOST_DEBTS: Final = 1000
NEVER: Final = float("inf")
_SETTLED_AFTER: Final = 0.2
"""Seconds after which the keeper repays a debt, if no other command to this node has done it."""
_AGAIN: Final = (0.05, 0.2, 1.0, 2.0)
"""Seconds until a node is tried again that could not be reached once, twice and so on."""
_TOLERATED: Final = 0.25
"""Seconds by which a clock may be set, in total, while a lock is held: half of the extra time for
which nodes keep a hold (`recipe.GUARD`)."""


def in_words(error: BaseException) -> str:
    """The message alone: the node's name stands beside it."""
    return error.message if isinstance(error, LocknutError) else str(error)


def name_of(place: Endpoint) -> str:
    """The name by which people tell one node from another."""
    service: str = getattr(place, "service", "")
    return f"{service} behind Sentinels" if service else place.settings.place


class Node:
    """One server of the set."""

    def __init__(self, at: int, place: Endpoint, max_ttl: float, now: Callable[[], float]):
        self.at = at
        self.place = place
        self.now = now
        self.name = name_of(place)
        """It has no password in it, so it may be shown."""
        self.settings = place.settings
        self._keep = max_ttl * 2
        self._debts: deque[tuple[Claim, float]] = deque(maxlen=MOST_DEBTS)
        """Claims that it may have a vote for, or may still get one for, and that nobody else will
        take back; and until when that matters."""
        self.on_debt: Callable[[], object] = lambda: None
        """Called, from anywhere, when the first debt is made."""
        self._settles_at = NEVER
        self.trouble: BaseException = ConnectionError("not tried yet")
        """Why the last attempt to reach it failed."""
        self.address: tuple[int, Any] | None = None
        """Which address of its name was reached, as long as it can be reached there."""
        self.last_address: tuple[int, Any] | None = None
        """Which address of its name was last reached."""
        self._failed = 0
        self._again = 0.0
        self._memory = max_ttl * 1.02
        self._steps: list[tuple[float, float]] = []
        """When its clock was set, and by how much."""
        self._distrusted_until = 0.0
        self.differs: tuple[int, int] | None = None
        """How its other clients differ from us: in `max_ttl`, or in the list of nodes."""
        self.silent = False
        """Whether somebody waited for it in vain, and it has not answered since."""
        self.waited = 0.0
        """For how many seconds somebody waited for it since it last answered."""

    def reachable(self) -> bool:
        """Whether it is worth trying to connect."""
        return self.now() >= self._again

    def unreached(self, why: BaseException) -> None:
        self.trouble = why
        self.silent = True
        self.address = None
        self._again = self.now() + _AGAIN[min(self._failed, len(_AGAIN) - 1)]
        self._failed += 1

    def reached(self) -> None:
        self._failed = 0
        self._again = 0.0

    def met(self, welcome: Welcome, kind: bytes = b"standalone") -> None:
        """Check what it said of itself: a replica, or one that evicts keys, cannot be a node."""
        place = self.name
        if kind == b"cluster":
            message = (
                f"{place} belongs to a cluster: a node must be a single master, because a script "
                "there sees only one slot, and not whether its server lost data"
            )
            raise ConfigurationError(message, backend="redlock")
        if kind == b"sentinel":
            message = (
                f"{place} is a Sentinel: give the whole group as one node of locknut.redlock."
                'Redlock(["redis+sentinel://s1,s2,s3/service", ...], failover=True); see what that '
                "loses"
            )
            raise ConfigurationError(message, backend="redlock")
        if welcome.role == "replica":
            message = f"{place} is a read-only replica: a node must be an independent master"
            raise ConfigurationError(message, backend="redlock")
        if welcome.evicts:
            message = (
                f"{place} may evict keys (maxmemory-policy {welcome.evicts}): it would forget its "
                "votes; a node needs noeviction"
            )
            raise ConfigurationError(message, backend="redlock")

    def refusal(self, why: str = "") -> LocknutError:
        """The error to report instead of asking it."""
        if isinstance(self.trouble, ConfigurationError):
            return self.trouble
        reason = why or f"could not be reached: {in_words(self.trouble)}"
        return NotSent(reason, backend="redlock")

    def owe(self, claim: Claim, asked: float) -> None:
        """Note a claim that was to be taken back at this time, and may not have been."""
        first = not self._debts
        if first:
            self._settles_at = self.now() + _SETTLED_AFTER
        self._debts.append((claim, asked + self._keep))
        # Not each: the keeper makes debts too, and would ring itself again and again. But it may
        # have struck off those before this one meanwhile.
        if first or len(self._debts) == 1:
            with suppress(RuntimeError):  # from a destructor, perhaps while the interpreter ends
                self.on_debt()

    @property
    def settles_at(self) -> float:
        """When to repay, if nobody has anything else to ask it; NEVER if it is owed nothing."""
        return max(self._settles_at, self._again) if self._debts else NEVER

    def settle_later(self) -> None:
        """It is being tried: if it fails, it is not tried again at once."""
        self._settles_at = self.now() + _AGAIN[-1]

    @property
    def in_debt(self) -> bool:
        return bool(self._debts)

    def debts(self) -> Iterator[Claim]:
        """The claims to take back, now that it can be reached. Each is struck off when the next one
        is asked for: if the thread that takes it back is interrupted, another one does it again.
        """
        with suppress(IndexError):  # other threads strike debts off as well
            for _ in range(len(self._debts)):  # later additions wait for the next time
                debt = claim, until = self._debts[0]
                if self.now() < until:
                    yield claim
                with suppress(ValueError):
                    self._debts.remove(debt)

    def stepped(self, seconds: float) -> None:
        """Note that its clock was set. If it was set by too much while a lock may have been held,
        what the node knows about expiries is worth nothing.
        """
        at = self.now()
        recent = [each for each in self._steps if each[0] > at - self._memory]
        self._steps = [*recent, (at, seconds)]
        if sum(size for _, size in self._steps) > _TOLERATED:
            self._distrusted_until = at + self._memory

    def trusted(self, at: float | None = None) -> bool:
        return (self.now() if at is None else at) >= self._distrusted_until


class NodeSet:
    """The nodes, their clocks, and the claims under way: one for all connections of a Locks."""

    def __init__(self, places: Sequence[Endpoint], max_ttl: float, now: Callable[[], float]):
        self.now = now
        self.nodes = [Node(at, each, max_ttl, now) for at, each in enumerate(places)]
        self.clocks = [NodeClock() for _ in places]
        self.ballots: dict[str, Ballot] = {}
        self.attaching: set[str] = set()
        """Claims that are taking over a detached hold; a release removes them."""
        self.largest = 0
        """The largest number that nodes accepted or reported: the next proposal is above it."""
        self.quarantined: set[int] = set()
        """Nodes that said that they do not vote yet: see `quarantine`."""
        self._mutex = threading.Lock()

    def waited_in_vain(self, nodes: Iterable[int], seconds: float, most: float) -> None:
        """Note the wait. A node silent for `most` seconds in total is not waited for again."""
        for at in nodes:
            node = self.nodes[at]
            node.waited += seconds
            node.silent = node.silent or node.waited >= most * 0.99

    def silent(self, answers: Round) -> bool:
        """Whether so many of the nodes asked are silent that the rest is not a majority."""
        known = [node.at for node in self.nodes if node.silent]
        spare = len(self.nodes) - answers.needed
        return len(known) > spare and len(answers.unanswered.intersection(known)) > spare

    def heard(self, node: int, clock: int, sent: float, received: float) -> None:
        """Take in a node's clock. A clock that was set is not believed for a while."""
        self.nodes[node].silent, self.nodes[node].waited = False, 0.0
        with self._mutex:
            step = self.clocks[node].observe(clock, sent, received)
            if step:
                self.nodes[node].stepped(step)

    def voted(self, node: int, answer: Sequence[int]) -> None:
        """Take in why a node did not vote, if it did not, even if its answer comes late."""
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
        """The latest time, in microseconds, that a right clock may show; 0 if none is known."""
        at = self.now() * 1e6
        with self._mutex:
            known = [each.high for node, each in enumerate(self.clocks) if right(self.clocks, node)]
        return int(max(known) + at) if known else 0

    def in_step(self, nodes: Sequence[int]) -> bool:
        """Whether these nodes are a majority and all their votes count: the quick check."""
        if len(nodes) < majority(len(self.nodes)):
            return False
        at = self.now()
        with self._mutex:
            trusted = [self.nodes[node].trusted(at) for node in nodes]
            return False not in trusted and in_step([self.clocks[node] for node in nodes])

    def doubts(self, node: int) -> int:
        """0 if a vote of this node counts, else the answer to take in its place."""
        with self._mutex:
            agrees = self.nodes[node].trusted() and right(self.clocks, node)
        if agrees is None:
            return UNSURE
        return 0 if agrees else NOT_COUNTED

    def propose(self, clock: int) -> int:
        """A number above everything seen, or the time in steps of 32 microseconds. It counts as
        seen only once it is accepted, because nodes refuse a number far ahead of their clock.
        """
        with self._mutex:
            return max(self.largest + 1, clock)

    def seen(self, number: int) -> None:
        with self._mutex:
            self.largest = max(self.largest, number)
