"""What is simulated: the real thing, or the real thing with a bug put in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from locknut.core import renewing
from tests.simulation.checker.history import Kind
from tests.simulation.checker.verdict import Assumptions
from tests.simulation.memory.backend import SimBackend
from tests.simulation.memory.node import Node, SimStore
from tests.simulation.network import EVERYTHING, Faults, Network
from tests.simulation.process import SimRuntime
from tests.simulation.recorded_client import SimClient, recorded_renewals
from tests.simulation.world import World

MEMORY = Assumptions(
    exclusion_void_after=frozenset({Kind.FORGOT, Kind.BROKEN}),
    old_holds_come_back=True,
    told_within=0.05,
    free_within=5.0,
    idle_within=11.0,
    fifo=True,
)
"""What the memory engine's store promises: a restart leaves it with nothing or an older state, but
fences grow."""


class Patch(NamedTuple):
    """One name of a module or class, replaced by something made from what it was."""

    where: Any
    name: str
    make: Callable[[Any], Any]


RECORDED = Patch(renewing, "renewed", recorded_renewals)
"""In force in every simulation: the checker wants to know until when a renewed hold is valid."""


@dataclass(frozen=True, slots=True)
class Variant:
    """The classes a simulation is made of, and the patches under which it runs."""

    store: type[SimStore] = SimStore
    backend: Any = SimBackend
    """Makes a Backend from a process and a node, and has its capabilities."""
    keeper: Any = None
    """The same for the keeper of leases, where that is of another colour."""
    node: Callable[[World, Network], Any] | None = None
    """What stands for the engine's servers; None: a plain node, with the store."""
    client: type[SimClient] = SimClient
    runtime: type[SimRuntime] = SimRuntime
    patches: tuple[Patch, ...] = ()
    everything: Faults = EVERYTHING
    """All that can befall it; a swarm is drawn from these."""
    ttls: tuple[float, ...] = (0.6, 1.5, 3.0)
    assumptions: Assumptions = MEMORY

    def make_node(self, world: World, network: Network) -> Any:
        return self.node(world, network) if self.node else Node(world, network, self.store)

    @contextmanager
    def in_force(self) -> Iterator[None]:
        undo: list[tuple[Patch, Any]] = []
        try:
            for patch in (RECORDED, *self.patches):
                original = getattr(patch.where, patch.name)
                undo.append((patch, original))
                setattr(patch.where, patch.name, patch.make(original))
            yield
        finally:
            for patch, original in reversed(undo):
                setattr(patch.where, patch.name, original)


REAL = Variant()
