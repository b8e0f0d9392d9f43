"""An engine's housekeeping is asked for seldom, by the keeper alone, and never costs a renewal."""

from __future__ import annotations

from itertools import pairwise

import pytest

from locknut.core import keeper, tidying
from locknut.core.lock_request import LockOptions
from locknut.errors import BackendUnavailable
from tests.simulation.customer import Customer
from tests.simulation.memory.backend import SimBackend
from tests.simulation.memory.node import Node
from tests.simulation.network import CALM, Network
from tests.simulation.process import SimSignal
from tests.simulation.variant import Variant
from tests.simulation.world import World

TTL = 30.0


class Untidy(SimBackend):
    """Notes when it is asked to tidy up."""

    asked: list[float]

    async def tidy(self) -> None:
        self.asked.append(self.process.now())


class Slow(Untidy):
    """Takes as long as it may, and fails."""

    async def tidy(self) -> None:
        await super().tidy()
        await SimSignal(self.process).wait(self.process.now() + tidying.LIMIT)
        raise BackendUnavailable("no answer in time")


def _asked(backend: type[Untidy], held_for: float, ttl: float = TTL) -> tuple[list[float], bool]:
    """When it was asked, in a process that holds one lock for so long; and whether it was held
    till the end.
    """
    world = World(0)
    node = Node(world, Network(world, CALM))
    backend.asked = []
    customer = Customer(world.process("p"), node, Variant(backend=backend))
    kept: list[bool] = []

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(ttl), 1.0)
        assert lease is not None
        await customer.sleep(held_for)
        kept.append(lease.held)
        await customer.release(lease)

    customer.process.spawn(hold(), "holder")
    world.run(held_for + keeper.IDLE + 2 * tidying.EVERY)
    customer.process.end()
    return backend.asked, kept == [True]


@pytest.mark.parametrize("backend", [Untidy, Slow])
def test_it_is_asked_for_seldom_and_costs_no_renewal(backend: type[Untidy]) -> None:
    asked, kept = _asked(backend, held_for=3 * tidying.EVERY + 2 * TTL)
    assert kept
    assert 3 <= len(asked) <= 4
    pauses = [later - earlier for earlier, later in pairwise(asked)]
    assert all(pause >= tidying.EVERY for pause in pauses)
    assert asked[0] >= tidying.EVERY


def test_it_is_asked_for_before_the_keeper_ends() -> None:
    asked, kept = _asked(Untidy, held_for=TTL)
    assert kept
    (once,) = asked
    assert once >= TTL + keeper.IDLE


def test_it_waits_where_the_next_renewal_is_near() -> None:
    """A hold of a short ttl is renewed all the time: then it is not the time to tidy up."""
    asked, kept = _asked(Slow, held_for=2 * tidying.EVERY, ttl=2 * tidying.LIMIT)
    assert kept
    assert all(each > 2 * tidying.EVERY for each in asked)
