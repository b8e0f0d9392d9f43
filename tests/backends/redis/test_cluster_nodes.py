"""How a cluster is reached from one of its nodes, and which leases its slots' moves put at risk."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core.values import Granted, Mode, Renewal
from locknut.errors import ConfigurationError
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.redis.conftest import PATIENCE, claim, eventually
from tests.backends.redis.test_cluster import (
    another,
    engine,
    fresh,
    names_on_every_node,
    slot_named,
)
from tests.servers.cluster import Node, RedisCluster

pytestmark = [pytest.mark.redis, pytest.mark.faults]


@pytest.fixture
def cluster(redis_cluster: RedisCluster) -> Iterator[RedisCluster]:
    redis_cluster.wait_until_whole()
    yield redis_cluster
    redis_cluster.wait_until_whole()


def streams(node: Node) -> int:
    told = node.ask("CLIENT", "LIST")
    assert isinstance(told, bytes)
    return told.count(b"resp=3")


def test_one_node_is_enough_and_one_stream_leads_to_each(cluster: RedisCluster) -> None:
    names = list(names_on_every_node(cluster).values())
    url = f"redis+cluster://{cluster.nodes[0].host}:{cluster.nodes[0].port}"

    async def take(locks: aio.Locks, name: str) -> None:
        async with locks.lock(name, ttl=600, timeout=PATIENCE):
            await asyncio.sleep(0)

    async def story() -> None:
        async with aio.connect(url, namespace="t") as locks:
            await asyncio.gather(*(take(locks, name) for name in names * 5))
            assert [streams(node) for node in cluster.nodes] == [1, 1, 1]

    eventually(lambda: not any(map(streams, cluster.nodes)), "somebody else is still connected")
    asyncio.run(story())
    with locknut.connect(url, namespace="t") as locks:
        for name in names:
            with locks.lock(name, timeout=PATIENCE):
                pass


@pytest.mark.parametrize(
    "facts",
    [{"mode": Mode.SHARED}, {"mode": Mode.PERMIT, "permits": 2}, {"owner": "ann"}],
    ids=["read", "permit", "owner"],
)
@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_leases_with_several_holders_are_at_risk_while_their_slot_moves(
    cluster: RedisCluster, colour: str, facts: dict[str, Any]
) -> None:
    name = fresh()
    slot = slot_named(name)
    target = another(cluster, slot)

    async def story() -> None:
        port: Any = (
            engine(cluster).blocking(ThreadRuntime())
            if colour == "blocking"
            else engine(cluster).asyncio(LoopRuntime())
        )
        mine = claim(name, **facts)
        assert isinstance(await port.attempt(mine, 0.0), Granted)
        cluster.begin_move(slot, target)
        assert await port.renew([mine]) == [Renewal.UNKNOWN]
        cluster.move_keys(slot, target)
        cluster.end_move(slot, target)
        assert await port.renew([mine]) == [Renewal.HELD]
        assert await port.release(mine)
        await port.close()

    run(story()) if colour == "blocking" else asyncio.run(story())


def test_two_clusters_in_one_all_need_an_id_each() -> None:
    urls = ("redis+cluster://h1", "redis+cluster://h2")
    one, two = (locknut.connect(url) for url in urls)
    with one, two, pytest.raises(ConfigurationError):
        locknut.all_of(one.lock("x"), two.lock("x"))
    one, two = (locknut.connect(url, id=url) for url in urls)
    with one, two:
        locknut.all_of(one.lock("x"), two.lock("x"))
