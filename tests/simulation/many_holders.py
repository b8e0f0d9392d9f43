"""Very many holds in virtual time: the real client, keeper and timetable; the engine only counts.

Nothing is disturbed and nothing is judged: other simulations do that. This one asks how much is
sent for holds that are only kept, with more of them than the machines of a test could hold.
"""

from __future__ import annotations

import gc
import time
from functools import partial
from typing import Any, NamedTuple

from locknut.core import acquiring_all, pacing
from locknut.core.client import Client
from locknut.core.holding import LeaseCore
from locknut.core.lock_request import LockOptions
from locknut.core.values import Event, RenewalReport
from tests.simulation.memory.backend import SimBackend
from tests.simulation.memory.node import Node, Order
from tests.simulation.network import CALM, Network
from tests.simulation.process import Process, SimRuntime
from tests.simulation.world import World

TOGETHER = 50
"""So many are taken by one command, so that taking them costs less than keeping them."""
PATIENCE = 3600.0


class Kept(NamedTuple):
    """What became of them, and what was sent for them."""

    holds: int
    """Still held in the end."""
    seconds: float
    """Virtual ones, in which nothing but renewing happened."""
    renewals: int
    batches: int
    cpu: float
    """Real seconds of processor for these renewals, the simulator's own included."""


class CountingNode(Node):
    """A server that tells no history: to compare all holds after each command takes too long."""

    renewals = 0
    batches = 0

    def apply(self, order: Order) -> Any:  # what the store answers
        if order.renews:
            self.batches += 1
            self.renewals += len(order.actors)
        return order.command(self.store, self.now())


class _Deaf:
    """Nobody listens."""

    measured = False

    def wants(self, kind: str, waited: float = 0.0) -> bool:
        return False

    def emit(self, event: Event) -> None:
        raise AssertionError("nobody asked for it")

    def renewal(self, report: RenewalReport) -> None:
        raise AssertionError("nobody asked for it")


class _Holder:
    """One process that takes its part of the locks, and keeps them."""

    def __init__(self, process: Process, node: Node) -> None:
        self.leases: list[LeaseCore] = []
        self._process = process
        runtime = SimRuntime(process)
        self._client = Client(
            backend=SimBackend(process, node),
            runtime=runtime,
            keeper_runtime=runtime,
            keeper_backend=lambda _runtime: SimBackend(process, node),
            keeper_start=lambda work: process.spawn(work, "keeper"),
            events=_Deaf(),
            lease_type=LeaseCore,
            namespace="sim",
        )

    def take(self, names: list[str], ttl: float, spread: float) -> None:
        """All of them within so many seconds: each task takes some."""
        options = LockOptions(ttl=ttl)
        for start in range(0, len(names), TOGETHER):
            part = names[start : start + TOGETHER]
            when = self._process.now() + spread * start / len(names)
            self._process.at(when, partial(self._take_some, part, options))

    def _take_some(self, names: list[str], options: LockOptions) -> None:
        self._process.spawn(self._acquire(names, options), "taker")

    async def _acquire(self, names: list[str], options: LockOptions) -> None:
        asked = [(self._client, self._client.request(name, options)) for name in names]
        acquired: list[Any] = []
        until = self._client.runtime.now() + PATIENCE
        assert await acquiring_all.acquire_all(asked, until, acquired)
        self.leases += acquired


def keep(processes: int, each: int, ttl: float, rounds: int = 2, seed: int = 1) -> Kept:
    """So many processes hold so many locks each, for as long as `rounds` renewals of all take."""
    collecting = gc.isenabled()
    gc.disable()  # it would go through all of them again and again, and there is nothing to collect
    try:
        return _keep(processes, each, ttl, rounds, seed)
    finally:
        if collecting:
            gc.enable()


def _keep(processes: int, each: int, ttl: float, rounds: int, seed: int) -> Kept:
    world = World(seed)
    node = CountingNode(world, Network(world, CALM))
    interval = ttl / pacing.RENEWALS_PER_TTL
    holders: list[_Holder] = []
    for number in range(processes):
        process = world.process(f"p{number}")
        holder = process.does(partial(_Holder, process, node))
        holders.append(holder)
        names = [f"{number:04}-{one:07}" for one in range(each)]
        begin = partial(process.does, partial(holder.take, names, ttl, interval))
        world.at(world.random.uniform(0.0, interval), begin)
    world.run(3 * interval)  # until everybody has begun, and has been renewed
    renewals, batches = node.renewals, node.batches
    cpu, seconds = time.process_time(), rounds * interval
    world.run(3 * interval + seconds)
    held = sum(lease.held for holder in holders for lease in holder.leases)
    return Kept(
        held,
        seconds,
        node.renewals - renewals,
        node.batches - batches,
        time.process_time() - cpu,
    )
