"""What `doctor` finds at Sentinels and at a cluster that are set up just so."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checkups import FAIL, OK, UNKNOWN, WARN, examine
from tests.servers.cluster import RedisCluster
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.resp import Refused
from tests.servers.sentinel import SERVICE, Sentinel, SentinelService

pytestmark = pytest.mark.redis
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


def told(service: SentinelService, *words: Any) -> None:
    for sentinel in service.sentinels:
        sentinel.ask("SENTINEL", "SET", SERVICE, *words)


@both_colours
def test_sentinels_as_they_should_be(redis_sentinel: SentinelService, colour: str) -> None:
    found = examine(redis_sentinel.url, colour)
    for code in ("redis-sentinels", "redis-sentinel-quorum", "redis-down-after", "redis-rights"):
        assert found[code].severity is OK, found[code]
    assert found["redis-replicas"].severity is WARN, "grants do not wait for them"


@both_colours
def test_a_quorum_of_one(redis_sentinel: SentinelService, colour: str) -> None:
    told(redis_sentinel, "quorum", 1)
    try:
        found = examine(redis_sentinel.url, colour)
    finally:
        told(redis_sentinel, "quorum", 2)
    assert found["redis-sentinel-quorum"].severity is WARN


def test_a_master_that_counts_as_down_too_late(redis_sentinel: SentinelService) -> None:
    told(redis_sentinel, "down-after-milliseconds", 60_000)
    try:
        finding = examine(redis_sentinel.url)["redis-down-after"]
    finally:
        told(redis_sentinel, "down-after-milliseconds", 500)
    assert finding.severity is WARN
    assert "60 s" in finding.found


def test_sentinels_that_are_gone_or_cannot_agree(redis_sentinel: SentinelService) -> None:
    first, *others = redis_sentinel.sentinels
    for each in others:
        each.stop()
    try:
        until(lambda: _cannot_agree(first), "the first one misses them")
        found = examine(redis_sentinel.url)
    finally:
        for each in others:
            each.cont()
    assert found["redis-sentinels"].severity is WARN
    assert "2 of the Sentinels" in found["redis-sentinels"].found
    assert found["redis-sentinel-quorum"].severity is FAIL
    assert found["usable"].severity is OK
    redis_sentinel.wait_until_whole()


def _cannot_agree(sentinel: Sentinel) -> bool:
    try:
        sentinel.ask("SENTINEL", "CKQUORUM", SERVICE)
    except Refused as no:
        return str(no).startswith("NOQUORUM")
    return False


def test_a_sentinel_that_names_another_master() -> None:
    """As one does that was cut off during a failover."""
    with RedisServer() as one, RedisServer() as other:
        with Sentinel(one) as first, Sentinel(other) as second:
            url = (
                f"redis+sentinel://{first.host}:{first.port},{second.host}:{second.port}/{SERVICE}"
            )
            finding = examine(url)["redis-sentinels"]
        assert finding.severity is FAIL
        assert str(other.port) in finding.found
        with Sentinel(one) as lonely:
            url = f"redis+sentinel://{lonely.host}:{lonely.port}/{SERVICE}"
            assert examine(url)["redis-sentinels"].severity is WARN


def test_a_sentinel_that_does_not_tell(redis_sentinel: SentinelService) -> None:
    rules = ["on", ">pw", "-@all", "+sentinel|get-master-addr-by-name", "+hello", "+auth"]
    for each in redis_sentinel.sentinels:
        each.ask("ACL", "SETUSER", "few", "reset", *rules)
    try:
        url = f"{redis_sentinel.url}?sentinel_username=few&sentinel_password=pw"
        found = examine(url)
    finally:
        for each in redis_sentinel.sentinels:
            each.ask("ACL", "DELUSER", "few")
    assert found["usable"].severity is OK
    for code in ("redis-sentinels", "redis-sentinel-quorum", "redis-down-after"):
        assert found[code].severity is UNKNOWN, found[code]


@both_colours
def test_a_cluster_whose_masters_are_alone(redis_cluster: RedisCluster, colour: str) -> None:
    found = examine(redis_cluster.url, colour)
    assert found["redis-cluster"].severity is OK
    assert found["redis-rights"].severity is OK, found["redis-rights"]
    assert found["redis-cluster-replicas"].severity is WARN
    assert "all locks of the cluster stop" in found["redis-cluster-replicas"].found
    for node in redis_cluster.nodes:
        node.ask("CONFIG", "SET", "cluster-require-full-coverage", "no")
    try:
        alone = examine(redis_cluster.url, colour)["redis-cluster-replicas"]
    finally:
        for node in redis_cluster.nodes:
            node.ask("CONFIG", "SET", "cluster-require-full-coverage", "yes")
    assert "the locks of its slots stop" in alone.found


def test_one_master_that_is_set_otherwise(redis_cluster: RedisCluster) -> None:
    node = redis_cluster.nodes[1]
    node.ask("CONFIG", "SET", "tcp-keepalive", 0)
    try:
        finding = examine(redis_cluster.url)["redis-keepalive"]
    finally:
        node.ask("CONFIG", "SET", "tcp-keepalive", 300)
    assert finding.severity is WARN
    assert f"{node.host}:{node.port}: " in finding.found
    assert str(redis_cluster.nodes[0].port) not in finding.found


@pytest.mark.slow
def test_a_cluster_with_replicas() -> None:
    with RedisCluster(masters=3, replicas=3) as cluster:
        until(
            lambda: examine(cluster.url)["redis-cluster-replicas"].severity is OK,
            "every master is known to have a replica",
        )


def test_a_cluster_that_misses_slots(redis_cluster: RedisCluster) -> None:
    node = redis_cluster.nodes[0]
    slot = redis_cluster.slot_of("anything")
    owner = redis_cluster.node_of(slot)
    for each in redis_cluster.nodes:
        each.ask("CLUSTER", "DELSLOTS", slot)
    try:
        until(lambda: node.state()["cluster_state"] == "fail", "it is noticed")
        found = examine(redis_cluster.url)["redis-cluster"]
    finally:
        owner.ask("CLUSTER", "ADDSLOTS", slot)
        redis_cluster.wait_until_whole()
    assert found.severity is FAIL
