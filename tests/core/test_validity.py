"""For how long a grant is believed, by which clock, and when it is renewed."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from locknut.core.holding import Hold
from locknut.core.lock_request import LockOptions
from locknut.core.pacing import validity
from locknut.core.values import Claim, Granted
from locknut.runtimes import clock
from tests.simulation.checker.history import Kind
from tests.simulation.customer import Customer
from tests.simulation.memory.node import Node
from tests.simulation.network import CALM, Network
from tests.simulation.variant import REAL
from tests.simulation.world import World


@pytest.mark.parametrize(("ttl", "margin"), [(30.0, 0.302), (1.0, 0.012), (0.01, 0.0021)])
def test_a_grant_is_believed_for_its_ttl_minus_one_percent_and_two_milliseconds(
    ttl: float, margin: float
) -> None:
    assert validity(1000.0, ttl) == pytest.approx(1000.0 + ttl - margin)


def test_it_is_over_with_its_ttl_or_its_max_hold_whatever_comes_first() -> None:
    for max_hold, ends in ((5.0, 105.0), (50.0, validity(100.0, 10.0))):
        options = LockOptions(10.0, max_hold=max_hold)
        hold = Hold(Claim("key", "1" * 32, 10.0), options, Granted(1), 100.0, None)
        assert hold.ends_at() == ends


def test_without_a_ttl_it_is_believed_until_somebody_says_otherwise() -> None:
    assert validity(1000.0, None) == float("inf")


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock")
def test_the_clock_runs_on_while_the_machine_is_suspended() -> None:
    """Nobody can suspend the machine here; the kernel says of one clock that it does so."""
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= clock.now() <= time.clock_gettime(time.CLOCK_BOOTTIME)


def test_it_is_renewed_every_third_of_its_ttl() -> None:
    world = World(0)
    customer = Customer(world.process("p"), Node(world, Network(world, CALM)), REAL)

    async def hold() -> None:
        lease = await customer.acquire("name", LockOptions(3.0), 1.0)
        assert lease is not None
        await customer.sleep(29.5)
        await customer.release(lease)

    customer.process.spawn(hold(), "holder")
    world.run(40)
    customer.process.end()
    told = [event.t for event in world.history if event.kind in (Kind.GRANTED, Kind.EXTENDED)]
    gaps = [later - earlier for earlier, later in pairwise(told)]
    assert len(gaps) == 29
    assert gaps == pytest.approx([1.0] * 29, abs=0.1)
