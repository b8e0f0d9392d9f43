"""Who leads, as a metric: 1 in the process that does, 0 in those that would like to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

import locknut
from locknut import aio, metrics
from tests.metrics.scrape import value
from tests.servers.processes import until

JOBS = {"backend": "memory", "election": "jobs:*"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def locks() -> Iterator[locknut.Locks]:
    with locknut.connect("memory:leaders") as made:
        yield made


def test_a_term_is_a_gauge(locks: locknut.Locks, registry: CollectorRegistry) -> None:
    metrics.prometheus(locks, registry=registry)
    for term in locks.election("jobs:1").terms():
        with term:
            assert value(registry, "locknut_leader", **JOBS) == 1
        assert value(registry, "locknut_leader", **JOBS) == 0
        break
    locks.election("jobs:2").run(lambda _: None)
    assert registry.get_sample_value("locknut_leader", JOBS) == 0
    (family,) = [each for each in registry.collect() if each.name == "locknut_leader"]
    assert len(family.samples) == 1, "a family, and not a name"


def test_a_candidate_is_seen_before_it_leads(
    locks: locknut.Locks, registry: CollectorRegistry
) -> None:
    metrics.prometheus(locks, registry=registry)
    done = threading.Event()
    with locknut.connect("memory:leaders") as others, others.lock("jobs:1"):
        assert registry.get_sample_value("locknut_leader", JOBS) is None
        waiter = threading.Thread(
            target=lambda: locks.election("jobs:1").run(lambda _: done.wait(60))
        )
        waiter.start()
        until(lambda: registry.get_sample_value("locknut_leader", JOBS) == 0, "a candidate")
    until(lambda: value(registry, "locknut_leader", **JOBS) == 1, "a leader")
    done.set()
    waiter.join(60)
    assert value(registry, "locknut_leader", **JOBS) == 0


def test_a_leader_that_lost_its_lock_does_not_lead(
    locks: locknut.Locks, registry: CollectorRegistry
) -> None:
    metrics.prometheus(locks, registry=registry)
    for term in locks.election("jobs:1").terms():
        with term:
            locks.force_release("jobs:1", reason="a test")
            assert term.lost.wait(60)
            until(lambda: value(registry, "locknut_leader", **JOBS) == 0, "nobody leads")
        break


def test_a_lock_is_no_election_and_turning_it_off_ends_it(
    locks: locknut.Locks, registry: CollectorRegistry
) -> None:
    stop = metrics.prometheus(locks, registry=registry)
    with locks.lock("jobs:1"):
        assert registry.get_sample_value("locknut_leader", JOBS) is None
    for term in locks.election("jobs:1").terms():
        with term:
            assert value(registry, "locknut_leader", **JOBS) == 1
            stop()
            assert value(registry, "locknut_leader", **JOBS) == 0
        break


def test_on_a_loop(registry: CollectorRegistry) -> None:
    async def main() -> None:
        async with aio.connect("memory:leaders") as locks:
            metrics.prometheus(locks, registry=registry)
            async for term in locks.election("jobs:1").terms():
                async with term:
                    assert value(registry, "locknut_leader", **JOBS) == 1
                break

    asyncio.run(main())
    assert value(registry, "locknut_leader", **JOBS) == 0
