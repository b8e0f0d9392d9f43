"""One server of a set: its own clock, its own runs, and what the history has to know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from locknut.backends.redlock import scripts
from locknut.backends.redlock.recipe import MARKER, PARTS, SUFFIX
from tests.simulation.checker.history import Kind
from tests.simulation.memory.node import NOBODY, Order, SimStore, bare
from tests.simulation.network import Faults, Network
from tests.simulation.process import Clock
from tests.simulation.redis.faults import Edit
from tests.simulation.redis.keys import Hash
from tests.simulation.redis.node import RedisNode, no_command, scripts_key
from tests.simulation.redis.store_view import LookIn, Shown
from tests.simulation.redlock.faults import RedlockFaults
from tests.simulation.redlock.holds import holds, places_in_line, surplus
from tests.simulation.world import World

VERBS = {
    getattr(scripts, verb).sha: verb.lower()
    for verb in ("VOTE", "RAISE", "EXTEND", "WITHDRAW", "DOWNGRADE", "ATTACH", "LOOK", "WATCH")
}
LAST = b"for good"
"""What a withdrawal says at its end (no script looks there) if the claim is over with it: one that
was refused gives its votes back too, and lives on."""
APART = 0.02
"""Seconds that the clocks of healthy nodes are away from the right time."""
STEADIER = 10
"""How much better than a client's the clock of a node runs: somebody looks after it."""
JUMPS = (0.1, 0.2, 0.35, 0.7, 2.0, 20.0)
RETURNS = (0.7, 2.0, 2.0)
"""A little, as for a clock that is set back: for so long what was kept meanwhile lives on."""
IN_USE = 1200
"""Seconds since nodes that were in use before were begun."""
NAMES = ("mutex", "pair", "twin", "shelf", "owned", "grip")
"""What the workload calls its locks: what befalls a node befalls all of them there."""
OF_ALL = frozenset({Kind.FORGOT, Kind.STEPPED})


class Strangers(set[str]):
    """Clients that cannot reach a node, for as long as there are faults.

    Who is cut off from one node, and cannot tell which of two others has the time, gets on after.
    """

    def __init__(self, network: Network) -> None:
        super().__init__()
        self._network = network

    def __contains__(self, who: object) -> bool:
        return isinstance(self._network.faults, RedlockFaults) and super().__contains__(who)


class RedlockNode(RedisNode):
    """One of several servers that know nothing of each other."""

    verbs = VERBS

    def __init__(
        self, world: World, network: Network, at: int, edits: tuple[Edit, ...] = ()
    ) -> None:
        self.at = at
        self.strangers: Strangers = Strangers(network)
        self._saved: Callable[[], None] | None = None
        super().__init__(world, network, edits)
        random, drift = world.random, network.faults.drift / STEADIER
        self.clock = Clock(500 + random.uniform(-APART, APART), 1 + random.uniform(-drift, drift))
        self._run, self._history = self._new_id(), self._new_id()
        self._since = self.wall() - IN_USE

    def _new_id(self) -> bytes:
        return b"%040x" % self.world.random.getrandbits(160)

    # What it says of itself.

    def _answer(self, port: Any, name: bytes, words: list[bytes]) -> Any:
        return self._info() if name == b"INFO" else super()._answer(port, name, words)

    def _command(self, words: list[bytes]) -> Any:
        return self._info() if words[0] == b"info" else super()._command(words)

    def _info(self) -> bytes:
        told = {
            b"maxmemory_policy": b"noeviction",
            b"run_id": self._run,
            b"master_replid": self._history,
            b"uptime_in_seconds": b"%d" % (self.wall() - self._since),
        }
        return b"".join(b"%b:%b\r\n" % each for each in told.items())

    # Faults.

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        if isinstance(faults, RedlockFaults):
            yield from super().strikes(faults)
            yield faults.snapshots, self._save
            yield faults.clock_jumps, self.jump
            yield faults.clock_returns, self.jump_and_return
            yield faults.boots_behind, self.boot_behind
            yield faults.resyncs, self._resync
            yield faults.swaps, self._swap

    def _save(self) -> None:
        self._saved = self.keys.copied()

    def jump(self) -> None:
        """What it knows about expiries is void: holds end early."""
        self.world.faults["clock_jumps"] += 1
        self._step(self.world.random.choice(JUMPS))

    def jump_and_return(self) -> None:
        self.world.faults["clock_returns"] += 1
        random = self.world.random
        ahead = random.choice(RETURNS)
        self._step(ahead)
        self._look_at()
        self.world.after(random.uniform(0.02, 1.0), lambda: self._step(-ahead))

    def boot_behind(self) -> None:
        """A clock without a battery, until somebody sets it."""
        self.world.faults["boots_behind"] += 1
        random = self.world.random
        behind = random.choice((5.0, 40.0, 90.0))
        self.restart(keep_data=False, away=0.01)
        self._step(-behind)
        self.world.after(random.choice((0.05, 0.5, 3.0)), lambda: self._step(behind))

    def _step(self, seconds: float) -> None:
        self.keys.names()
        self._record(Kind.STEPPED, "", "")
        self.wall_ahead += seconds
        self.tell(NOBODY)

    def _look_at(self) -> None:
        """Somebody asks it about a lock that nobody has."""
        if self.up and not self.stopped:
            names = [MARKER, *(b"locknut:{sim:none}" + SUFFIX + part for part in PARTS)]
            self._evaluate(self._load(scripts.LOOK.text), names, [b"", b""])

    def _resync(self) -> None:
        self.world.faults["resyncs"] += 1
        self._history = self._new_id()
        self._forget("", self._take_other_data)

    def _swap(self) -> None:
        if self.up:
            self.world.faults["swaps"] += 1
            self._hang_up()
            self._run, self._history = self._new_id(), self._new_id()
            self._since = self.wall() - IN_USE
            self._forget("", self._take_other_data)

    def _take_other_data(self) -> None:
        self.keys.clear()
        if self._saved is not None and self.world.chance(0.7):
            self._saved()

    def in_use(self, set_id: bytes, max_ttl: bytes) -> None:
        """It has been voting for longer than a number may be ahead of the clock."""
        terms = b":".join((self._run, max_ttl, set_id))
        clock = self._microseconds()
        floor = (clock - IN_USE * 1_000_000) // 32
        marker = {
            b"run": self._run,
            b"history": self._history,
            b"set": set_id,
            b"max_ttl": max_ttl,
            b"clock": b"%d" % clock,
            b"floor": b"%d" % floor,
            b"votes": terms,
        }
        self.keys.make(MARKER, Hash).update(marker)

    def set_back(self, seconds: float) -> None:
        self._record(Kind.STEPPED, "", "")
        super().set_back(seconds)

    def _come_back(self) -> None:
        super()._come_back()
        self._run, self._history = self._new_id(), self._new_id()
        self._since = self.wall()

    # What the history sees.

    def _told(self, verb: str, name: bytes, argv: list[bytes], answer: Any) -> None:
        """The first key is the marker; what a script changed is told by comparing."""

    def _evaluate(self, sha: bytes, names: list[bytes], argv: list[bytes]) -> Any:
        answer = super()._evaluate(sha, names, argv)
        key = scripts_key(names[1])
        verb = self.verbs[sha]
        if verb == "watch":
            return answer
        if verb == "look":
            if argv[1] == b"break" and answer[0]:
                self._broken(bare(key))
            self.tell(NOBODY)
            return answer
        actors = tuple(word[:32].decode() for word in argv[: 2 if verb == "attach" else 1])
        self.tell(Order(actors, no_command, renews=verb == "extend" and argv[4] != b"1"))
        if verb == "withdraw" and argv[-1] == LAST:
            self.withdrawn(bare(key), actors[0])
        return answer

    def _broken(self, name: str) -> None:
        self.world.faults["holds_broken"] += 1
        self._record(Kind.BROKEN, name, "")
        self.tell(NOBODY, note="broken")

    def _record(self, kind: Kind, name: str, claim_id: str, **more: Any) -> None:
        """A node's own events bear its number, so that each node is judged for itself."""
        who = f"node{self.at}"
        names = NAMES if kind in OF_ALL else [name]
        for each in names:
            if kind in OF_ALL or kind is Kind.BROKEN:
                self.world.tell(who, kind, each, claim_id, **more)
            self.world.tell(who, kind, f"{each}@{self.at}", claim_id, **more)

    def _new_store(self) -> SimStore:
        self.keys.clear()
        if self._saved is not None and self.world.chance(0.5):
            self.world.faults["stale_data"] += 1
            self._saved()
        return LookAtVotes(self)

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        self.keys.names()
        for held in self.store.holds():
            yield held.claim.key, held.claim.id, f"a vote of node {self.at}"
        for name, claim_id in self.store.places_in_line():
            yield name, claim_id, f"a place in the line of node {self.at}"
        for what in surplus(self.keys):
            yield "", "", f"{what} on node {self.at}"


class LookAtVotes(LookIn):
    """The keys of a node, seen as the simulator sees a store."""

    def holds(self) -> Iterator[Any]:
        for seen in holds(self._node.keys):
            yield Shown(seen, self.on_clock(seen.ends))

    def places_in_line(self) -> Iterator[tuple[str, str]]:
        for key, claim_id in places_in_line(self._node.keys):
            yield bare(key), claim_id
