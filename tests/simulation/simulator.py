"""Runs the real core of many clients under virtual time with a seed, and has the history judged.

    python -m tests.simulation --seeds 0:2000 [--engine redis] [--bug NAME]

The same seed gives the same history. The first part of a run is disturbed by faults, the second
calm: by its end everybody must have got on, and nothing may be left behind.
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from tests.simulation.chaos import Chaos
from tests.simulation.checker import Violation, check
from tests.simulation.checker.history import Event, Kind
from tests.simulation.customer import Customer
from tests.simulation.memory.engine import KINDS
from tests.simulation.network import Faults, Network, swarm
from tests.simulation.process import Process
from tests.simulation.resource import Guard
from tests.simulation.sizes import FULL, Size
from tests.simulation.variant import REAL, Variant
from tests.simulation.workload import Parcel, Worker, places
from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Setting:
    """What is the same for all seeds."""

    variant: Variant | None = None
    """None: one of the kinds of engines there are, chosen by the seed."""
    faults: Faults | None = None
    """None: a swarm, different for every seed."""
    only: tuple[str, ...] = ()
    """The places to use; all of them if empty."""
    guard: Guard = Guard.ENTERED
    size: Size = FULL


SWARM = Setting()


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one seed."""

    seed: int
    history: list[Event]
    violations: list[Violation]
    faults: Counter[str]
    seen: Counter[str]
    acquired: int

    def briefly(self) -> Run:
        """The same without its history, unless that shows something broken."""
        return self if self.violations else replace(self, history=[])


class Simulation:
    """One seed's world, with its processes, its engine and its chaos."""

    def __init__(self, seed: int, setting: Setting) -> None:
        self.world = World(seed)
        self.variant = setting.variant or self.world.random.choice(KINDS)
        self.faults = setting.faults or swarm(self.world.random, self.variant.everything)
        self.network = Network(self.world, self.faults)
        self.node = self.variant.make_node(self.world, self.network)
        self.size = setting.size
        self.places = places(
            self.world.random, setting.only, setting.guard, self.variant, self.size.names
        )
        self.customers: list[Customer] = []
        self.chaos = Chaos(self.world, self.node, self._alive, self._replace)

    def run(self) -> list[Event]:
        world, size = self.world, self.size
        world.tell("", Kind.DISTURBED)
        for _ in range(world.random.choice(size.processes)):
            self._open_customer()
        self.chaos.begin(self.faults)
        world.run(size.disturbed)
        self.chaos.end()
        self.network.calm_down()
        world.run(size.disturbed + size.settling)
        world.tell("", Kind.CALM)
        world.run(size.disturbed + size.settling + size.calm + size.aftermath)
        self._look_around()
        world.tell("", Kind.ENDED)
        for customer in self.customers:
            customer.process.end()
        return world.history

    def _open_customer(self) -> None:
        world = self.world
        process = world.process(f"p{len(self.customers)}", drift=self.faults.drift)
        customer = process.does(lambda: Customer(process, self.node, self.variant))
        self.customers.append(customer)
        for i in range(world.random.choice(self.size.workers)):
            worker = Worker(customer, self.places, self._give, self.size)
            process.spawn(worker.work(), f"worker{i}")

    def _alive(self) -> list[Process]:
        return [customer.process for customer in self.customers if not customer.process.dead]

    def _replace(self, _: Process) -> None:
        self.world.after(self.world.random.uniform(0.1, 2.0), self._open_customer)

    def _give(self, parcel: Parcel) -> None:
        """A job queue that delivers twice; and a parcel at any time until nobody can have it."""
        random, detached_for = self.world.random, parcel.place.detached_for
        for customer in random.sample(self.customers, k=2):
            worker = Worker(customer, self.places, self._give, self.size)
            deliver = partial(_deliver, worker, customer.process, parcel)
            if detached_for is None:
                deliver()
            else:
                self.world.after(random.uniform(0.0, detached_for), deliver)

    def _look_around(self) -> None:
        """Tell the history what is still there."""
        for name, claim_id, what in self.node.leftovers():
            self.world.tell("engine", Kind.LEFT, name, claim_id, note=what)
        for customer in self.customers:
            process = customer.process
            if process.dead:
                continue
            for what in customer.leftovers():
                process.tell(Kind.LEFT, note=what)
            for task in process.tasks:
                if task.error is not None:
                    process.tell(Kind.LEFT, note=f"{task.name} died of {task.error!r}")
                elif not task.done and "keeper" not in task.name:
                    process.tell(Kind.LEFT, note=f"{task.name} still waits")


def _deliver(worker: Worker, process: Process, parcel: Parcel) -> None:
    process.spawn(worker.take_over(parcel), "co-worker")


def run(seed: int, setting: Setting = SWARM) -> Run:
    """One seed, from its start to the verdict."""
    collecting = gc.isenabled()
    gc.disable()  # a lease that is collected is abandoned: when, must depend on the seed alone
    try:
        with (setting.variant or REAL).in_force():
            simulation = Simulation(seed, setting)
            history = simulation.run()
        verdict = check(history, simulation.variant.assumptions)
        acquired = sum(event.kind is Kind.ACQUIRED for event in history)
        world = simulation.world
        return Run(seed, history, verdict, world.faults, world.seen, acquired)
    finally:
        if collecting:
            gc.enable()
