"""The nodes of a set together: which of them is struck, and what each process knows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from locknut.backends.redlock import recipe as recipes
from locknut.backends.redlock.ballots import majority
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Packed, Question, Route
from locknut.backends.redlock.recipe import Recipe, milliseconds
from locknut.drivers.redis import settings
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.urls import parse
from tests.simulation.network import Faults, Network
from tests.simulation.process import Process
from tests.simulation.redis.faults import Edit
from tests.simulation.redlock.node import LAST, RedlockNode
from tests.simulation.world import World

MAX_TTL = 3.0
"""Short, so that a node which lost its data votes again before the run is over."""
SET = b"3-sim"
OTHER_SET = b"3-other"
WEIGHTS = (0.3, 1.0, 1.0, 4.0)
"""The ways to the nodes are not equally bad."""
SIZES = (3, 3, 3, 5, 4)
"""Four are refused at the door; votes must not be split for ever all the same."""


class Known(NamedTuple):
    """What one process knows of the nodes, whoever of it speaks with them: as an engine has it."""

    process: Process
    nodes: NodeSet
    recipe: Recipe
    servers: list[RedlockNode]


class Cluster:
    """A set of nodes, as the simulator sees a node."""

    def __init__(
        self,
        world: World,
        network: Network,
        edits: tuple[Edit, ...] = (),
        sizes: tuple[int, ...] = SIZES,
    ) -> None:
        self.world = world
        self._faults = network.faults
        random = world.random
        count = random.choice(sizes)
        servers = [
            RedlockNode(world, network.part(random.choice(WEIGHTS), MAX_TTL), at, edits)
            for at in range(count + 1)
        ]
        world.servers.update({f"sim{node.at}": node for node in servers})
        *self.nodes, self._spare = servers
        """And one that is in the list of those who are mistaken."""
        self._unsteady = random.sample(self.nodes, k=count - majority(count))
        self._known: dict[str, Known] = {}
        if world.chance(0.9):  # else the set is new
            for node in self.nodes:
                node.in_use(SET, milliseconds(MAX_TTL + recipes.GUARD))
        if world.chance(0.5):
            self._spare.in_use(OTHER_SET, milliseconds(MAX_TTL + recipes.GUARD))

    def known_by(self, process: Process) -> Known:
        known = self._known.get(process.name)
        if known is None:
            servers, set_id = list(self.nodes), SET
            if self.world.chance(getattr(self._faults, "other_lists", 0.0)):
                self.world.faults["other_lists"] += 1
                servers[self.world.random.randrange(len(servers))] = self._spare
                set_id = OTHER_SET
            if self.world.chance(getattr(self._faults, "cut_off", 0.0)):
                self.world.faults["cut_off"] += 1
                self.world.random.choice(servers).strangers.add(process.name)
            places = [FixedEndpoint(_settings(f"sim{each.at}")) for each in servers]
            recipe = Recipe(max_ttl=MAX_TTL, durable=False, set_id=set_id.decode())
            known = self._known[process.name] = Known(
                process, NodeSet(places, MAX_TTL, process.now), recipe, servers
            )
        return known

    def restart(self, *, keep_data: bool, away: float) -> None:
        self._some().restart(keep_data=keep_data, away=away)

    def set_back(self, seconds: float) -> None:
        self._shaky().set_back(seconds)

    def strikes(self, faults: Faults) -> Iterator[tuple[float, Callable[[], None]]]:
        """What may befall a node befalls one of them; only clocks of a minority are ever set."""
        for kind, (rate, strike) in enumerate(self.nodes[0].strikes(faults)):
            shaky = strike in (self.nodes[0].jump, self.nodes[0].jump_and_return)

            def one(kind: int = kind, *, shaky: bool = shaky) -> None:
                node = self._shaky() if shaky else self._some()
                list(node.strikes(faults))[kind][1]()

            yield rate, one

    def leftovers(self) -> Iterator[tuple[str, str, str]]:
        for node in (*self.nodes, self._spare):
            yield from node.leftovers()
        for known in self._known.values():
            left = known.nodes.ballots or known.nodes.attaching
            if left and not known.process.dead:
                yield "", "", f"a ballot in {known.process.name}"

    def _some(self) -> RedlockNode:
        return self.world.random.choice(self.nodes)

    def _shaky(self) -> RedlockNode:
        return self.world.random.choice(self._unsteady)


def marked(question: Question) -> Question:
    """The same; but if it ends a claim, the node is told so, for the history."""
    if question.owed is None:
        return question
    words = question.words

    def last(route: Route) -> Packed:
        script, packed = words(route)
        count, _, rest = packed.partition(b"\r\n")
        return script, b"*%d\r\n%b$%d\r\n%b\r\n" % (int(count[1:]) + 1, rest, len(LAST), LAST)

    return question._replace(words=last)


@cache
def _settings(name: str) -> settings.Settings:
    return settings.read(parse(f"redis://{name}?socket_timeout=1&socket_connect_timeout=1"))
