"""The simulated Redlock as a variant of the simulator; clients are of either colour."""

from __future__ import annotations

from locknut.backends import redlock
from locknut.backends.redlock import engine as _engine  # noqa: F401  # all modules are loaded by it
from locknut.backends.redlock.backend import CAPABILITIES
from locknut.backends.redlock.nodes import Node
from locknut.core.ports import Backend
from tests.simulation.checker.history import Kind
from tests.simulation.checker.verdict import Assumptions
from tests.simulation.process import Process
from tests.simulation.redis.client_end import CLOCKS, REPLACED, instead
from tests.simulation.redlock.aio import Asyncio, SimAsyncio
from tests.simulation.redlock.faults import RedlockFaults
from tests.simulation.redlock.node_set import Cluster
from tests.simulation.redlock.simulated_sockets import Os, OwnSockets, Select, Sockets
from tests.simulation.redlock.sync import SimBlocking
from tests.simulation.variant import Variant


class Either:
    """A process is of one colour; which, the seed decides."""

    capabilities = CAPABILITIES

    def __call__(self, process: Process, cluster: Cluster) -> Backend:
        colour = SimBlocking if process.world.chance(0.5) else SimAsyncio
        return colour(process, cluster)


def machine() -> tuple[bytes, float]:
    """Every process has a machine, and a clock, of its own."""
    assert Process.running is not None
    return Process.running.name.encode(), Process.running.now()


def address_of(node: Node) -> tuple[int, str]:
    """Names are known."""
    return 0, node.settings.host


KERNEL = {
    **REPLACED,
    "address_of": lambda _: address_of,
    "machine": lambda _: machine,
    "asyncio": lambda _: Asyncio,
    "socket": lambda _: Sockets,
    "sockets": lambda _: OwnSockets,
    "select": lambda _: Select,
    "os": lambda _: Os,
}

EVERYTHING = RedlockFaults(
    request_lost=0.03,
    reply_lost=0.03,
    slow=0.1,
    late=0.02,
    engine_restarts=0.3,
    data_lost=0.6,
    clock_set_back=0.1,
    processes_stop=0.3,
    processes_crash=0.05,
    tasks_cancelled=1.0,
    drift=0.004,
    connections_cut=0.2,
    server_stops=0.3,
    scripts_flushed=0.2,
    emptied=0.15,
    snapshots=0.5,
    clock_jumps=0.15,
    clock_returns=0.15,
    boots_behind=0.15,
    resyncs=0.15,
    swaps=0.15,
    other_lists=0.2,
    cut_off=0.3,
)

ASSUMED = Assumptions(
    exclusion_void_after=frozenset({Kind.BROKEN}),
    holds_void_after=frozenset({Kind.BROKEN, Kind.FORGOT, Kind.STEPPED}),
    told_within=0.05,
    idle_within=11.0,
)
"""Nodes may forget and clocks be set: a hold may end by it, but never are there two."""

REDLOCK = Variant(
    node=Cluster,
    backend=Either(),
    keeper=SimBlocking,
    patches=(*CLOCKS, *instead(redlock.__name__, KERNEL)),
    everything=EVERYTHING,
    ttls=(2.0,),
    assumptions=ASSUMED,
)
