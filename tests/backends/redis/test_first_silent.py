"""Who is asked first where the master is (a Sentinel, a seed of a cluster) hangs: the others are
asked soon enough for a caller with little time, and the caller's time is kept.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from locknut.drivers.redis.connections import BlockingDial
from locknut.drivers.redis.links import LoopDial
from locknut.drivers.redis.sentinel import Sentinels, read
from locknut.errors import BackendUnavailable
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from locknut.urls import open_engine, parse
from tests.backends.redis.test_cluster import names_on_every_node
from tests.backends.redis.test_sentinel import liar
from tests.servers.cluster import RedisCluster
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SERVICE, SentinelService

pytestmark = [
    pytest.mark.redis,
    pytest.mark.faults,
    pytest.mark.parametrize("colour", list(COLOURS)),
]
LATE = 0.3
"""How late a caller may return, at most; and a busy machine's share."""
BUSY = 0.4


@pytest.fixture(scope="module")
def service() -> Iterator[SentinelService]:
    with SentinelService(replicas=0) as made:
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[RedisCluster]:
    more = {"cluster-require-full-coverage": "no", "cluster-node-timeout": "60000"}
    with RedisCluster(more=more) as made:
        yield made


@contextmanager
def stopped(*servers: RedisServer) -> Iterator[None]:
    for each in servers:
        each.stop()
    try:
        yield
    finally:
        for each in servers:
            each.cont()


def cold(url: str, colour: str, ask: Callable[[Any], Awaitable[Any]]) -> tuple[bool, float, float]:
    """Whether somebody without a connection gets the lock; how long that takes, and closing."""
    paint = COLOURS[colour]()

    async def story() -> tuple[bool, float, float]:
        locks: Any = paint.locks(open_engine(url)[0], Settings("t"))
        lease = None
        began = time.monotonic()
        with suppress(BackendUnavailable):
            lease = await ask(locks)
        asked = time.monotonic()
        await locks.close()
        return lease is not None, asked - began, time.monotonic() - asked

    found: tuple[bool, float, float] = paint.run(story())
    return found


@pytest.mark.parametrize("silent", [1, 2])
def test_a_healthy_sentinel_is_asked_in_time(
    service: SentinelService, colour: str, silent: int
) -> None:
    with stopped(*service.sentinels[:silent]):
        got, took, closed = cold(
            service.url, colour, lambda locks: locks.lock("x").acquire(timeout=1.5)
        )
    assert got
    assert took < 1.5 + LATE + BUSY
    assert closed < 3 + BUSY


@pytest.mark.parametrize("timeout", [0.05, 0.5])
def test_a_timeout_is_kept(service: SentinelService, colour: str, timeout: float) -> None:
    with stopped(service.sentinels[0]):
        _, took, closed = cold(
            service.url, colour, lambda locks: locks.lock("x").acquire(timeout=timeout)
        )
    assert took < timeout + LATE + BUSY
    assert closed < 3 + BUSY


def test_a_try_has_time_for_a_healthy_sentinel(service: SentinelService, colour: str) -> None:
    with stopped(service.sentinels[0]):
        got, took, _ = cold(
            service.url, colour, lambda locks: locks.lock("x").acquire(blocking=False)
        )
    assert got
    assert took < 1 + BUSY


def test_whoever_answered_is_asked_first_whether_the_master_is_the_same(
    service: SentinelService, colour: str
) -> None:
    """Or each look would cost the time that the silent one has."""
    paint = COLOURS[colour]()
    place = read(parse(service.url))
    assert isinstance(place, Sentinels)
    dial: Any = (
        BlockingDial() if colour == "blocking" else LoopDial(lambda *_: None, lambda _: None)
    )

    async def story() -> None:
        (await place.reach(dial)).close()
        with stopped(service.sentinels[0]):
            await place.confirm(dial)

    paint.run(story())
    assert place._sentinels[0].port == service.sentinels[1].port


def test_a_sentinel_that_takes_its_time_is_waited_for_if_there_is_no_other(
    redis_server: RedisServer, colour: str
) -> None:
    with liar(redis_server) as slow:
        slow.takes = 0.4
        url = f"redis+sentinel://{slow.place}/{SERVICE}"
        got, *_ = cold(url, colour, lambda locks: locks.lock("slow").acquire(timeout=20))
    assert got


def test_a_healthy_seed_is_asked_in_time(cluster: RedisCluster, colour: str) -> None:
    frozen = cluster.nodes[0]
    name = next(name for node, name in names_on_every_node(cluster).items() if node is not frozen)
    with stopped(frozen):
        got, took, closed = cold(
            cluster.url, colour, lambda locks: locks.lock(name).acquire(timeout=1.5)
        )
    assert got
    assert took < 1.5 + LATE + BUSY
    assert closed < 3 + BUSY


@pytest.mark.parametrize("timeout", [0.05, 0.5])
@pytest.mark.slow
def test_a_timeout_is_kept_beside_a_frozen_seed(
    cluster: RedisCluster, colour: str, timeout: float
) -> None:
    """Also for a lock that the frozen node itself has."""
    for name in names_on_every_node(cluster).values():
        with stopped(cluster.nodes[0]):
            _, took, closed = cold(
                cluster.url,
                colour,
                lambda locks, name=name: locks.lock(name).acquire(timeout=timeout),  # type: ignore[misc]
            )
        assert took < timeout + LATE + BUSY
        assert closed < 3 + BUSY
