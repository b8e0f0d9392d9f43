"""The simulated Redis as variants of the simulator: blocking clients, asyncio clients, or both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from locknut.backends.redis.backend import CAPABILITIES
from locknut.core.ports import Backend
from tests.simulation.checker.history import Kind
from tests.simulation.process import Process
from tests.simulation.redis.aio import SimAsyncio
from tests.simulation.redis.client_end import CLOCKS
from tests.simulation.redis.faults import RedisFaults
from tests.simulation.redis.node import RedisNode
from tests.simulation.redis.sync import SimBlocking, SimConfirmed
from tests.simulation.variant import MEMORY, Variant

COLOURS = (SimBlocking, SimBlocking, SimAsyncio, SimAsyncio, SimConfirmed)


class Either:
    """A process is of one colour; which, the seed decides."""

    capabilities = CAPABILITIES

    def __call__(self, process: Process, node: RedisNode) -> Backend:
        colour: type[Any] = process.world.random.choice(COLOURS)
        backend: Backend = colour(process, node)
        return backend


EVERYTHING = RedisFaults(
    request_lost=0.03,
    reply_lost=0.03,
    slow=0.1,
    late=0.02,
    engine_restarts=0.1,
    data_lost=0.4,
    clock_set_back=0.05,
    processes_stop=0.3,
    processes_crash=0.05,
    tasks_cancelled=1.0,
    drift=0.004,
    connections_cut=0.2,
    server_stops=0.1,
    scripts_flushed=0.2,
    keys_deleted=0.1,
    emptied=0.05,
    clock_set_forward=0.05,
    older_state=0.05,
    lagging_replica=0.05,
    replicas_behind=0.1,
)

REDIS = Variant(
    node=RedisNode,
    backend=Either(),
    keeper=SimBlocking,
    patches=CLOCKS,
    everything=EVERYTHING,
    assumptions=replace(
        MEMORY,
        exclusion_void_after=MEMORY.exclusion_void_after | {Kind.STEPPED},
    ),
)
