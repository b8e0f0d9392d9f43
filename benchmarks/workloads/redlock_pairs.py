"""What an uncontended acquire and release on five masters costs, and when some of them are away.

1.00 is a bare socket to each node. Five servers do five times the work of one: what share of the
time is theirs is measured, because here they share two cores with their client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks import measuring, pairing
from benchmarks.charts import Chart
from benchmarks.kinds import Field, installed
from benchmarks.plan import Plan
from benchmarks.redlock_locks import ASYNCIO, BARE, BLOCKING, KINDS, ONE, ONE_ASYNCIO, PEERS
from benchmarks.reporting import Table
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

NAMES = (BARE, BLOCKING, ASYNCIO, ONE, ONE_ASYNCIO, *PEERS)
SECONDS = 0.3
PATIENCE = 4.0
"""Seconds for a slice: who takes longer waits for a node that does not answer, each time."""
TIMES_ONE, TIMES_ALL_UP = 2.0, 1.0
COLUMNS = (
    "",
    "nodes",
    "us per pair",
    "best quarter",
    "of bare",
    "times one node",
    "us of client CPU",
    "us of server CPU",
)


class State(NamedTuple):
    """What was done to the nodes."""

    title: str
    deeds: tuple[Callable[[RedisServer], None], ...] = ()


STATES = (
    State("all up"),
    State("one hung", (RedisServer.stop,)),
    State("one killed", (RedisServer.kill,)),
    State("two killed", (RedisServer.kill, RedisServer.kill)),
)
Walls = dict[str, list[float]]


def measure(plan: Plan) -> Table:
    """Microseconds per pair, as parts of the limit and as multiples of one node."""
    table = Table(
        "redlock.pairs: uncontended acquire and release on five nodes, and on fewer", COLUMNS
    )
    with RedlockNodes() as nodes:
        table.versions |= installed("hiredis")
        table.versions["redis-server"] = nodes.nodes[0].info()["redis_version"]
        found = {state.title: _race(state, nodes, table, plan) for state in STATES}
    all_up = found["all up"]
    for name, one in ((BLOCKING, ONE), (ASYNCIO, ONE_ASYNCIO)):
        times = measuring.ratio(all_up[name], all_up[one])
        table.aim(f"{name}, all up, times one node", times, TIMES_ONE, at_least=False)
        for state in STATES[1:]:
            # Each beside the bare sockets of its own minutes, which are not slower for it either.
            times = measuring.median(found[state.title][name]) / measuring.median(all_up[name])
            what = f"{name}, {state.title}, times all up"
            table.aim(what, times, TIMES_ALL_UP, at_least=False)
    return table


def _race(state: State, nodes: RedlockNodes, table: Table, plan: Plan) -> Walls:
    field = Field(KINDS, NAMES)
    for node, deed in zip(nodes.nodes, state.deeds, strict=False):
        deed(node)
    running = [node.pid for node in nodes.nodes if node.running]
    found = pairing.race(
        field,
        "redlock",
        nodes.url,
        plan=plan,
        seconds=SECONDS,
        servers=running,
        patience=PATIENCE if plan.complete else PATIENCE / 4,
    )
    for node in nodes.nodes:
        node.start()
    _tell(state, field, found, table)
    return pairing.column(found, "wall")


def _tell(state: State, field: Field, found: pairing.Samples, table: Table) -> None:
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    servers = pairing.column(found, "servers")
    of_bare = pairing.of_limit(wall, BARE)
    for name in field:
        one = ONE_ASYNCIO if name.startswith(ASYNCIO) else ONE
        table.add(
            name,
            state.title,
            measuring.median(wall[name]),
            measuring.best_quarter(wall[name]),
            of_bare[name],
            measuring.ratio(wall[name], wall[one]),
            measuring.median(cpu[name]),
            measuring.median(servers[name]),
        )
    table.notes += [f"{state.title}: {note}" for note in field.notes]
    table.versions |= field.versions()
    table.charts.append(
        Chart(
            state.title.replace(" ", "-"),
            f"Uncontended acquire and release on five Redis masters, {state.title}",
            "microseconds per pair (further left is better)",
            {name: measuring.median(wall[name]) for name in field},
            log=True,
        )
    )
