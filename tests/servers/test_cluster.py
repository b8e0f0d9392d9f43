"""The cluster becomes whole, says who serves what, moves slots, and goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.cluster import RedisCluster
from tests.servers.processes import exists, until
from tests.servers.resp import Refused

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module", params=["redis", "valkey"])
def cluster(request: pytest.FixtureRequest) -> Iterator[RedisCluster]:
    running = RedisCluster(flavour=request.param)
    with running:
        pids = [node.pid for node in running.nodes]
        yield running
        pids += [node.pid for node in running.nodes]
    assert not any(exists(pid) for pid in pids)


def test_every_node_serves_its_share(cluster: RedisCluster) -> None:
    assert cluster.url.startswith("redis+cluster://127.0.0.1:")
    served = {cluster.node_of(slot).port for slot in (0, 8000, 16383)}
    assert served == {node.port for node in cluster.nodes}
    slot = cluster.slot_of("{a}b")
    assert slot == cluster.slot_of("a")
    own = cluster.node_of(slot)
    assert own.ask("SET", "{a}b", "1") == b"OK"
    for other in cluster.nodes:
        if other is not own:
            with pytest.raises(Refused, match=f"MOVED {slot} 127.0.0.1:{own.port}"):
                other.ask("GET", "{a}b")


def test_a_slot_moves_with_its_keys(cluster: RedisCluster) -> None:
    slot = cluster.slot_of("moving")
    source = cluster.node_of(slot)
    source.ask("SET", "moving", "1")
    target = next(node for node in cluster.nodes if node is not source)
    cluster.move(slot, target)
    assert cluster.node_of(slot) is target
    assert target.ask("GET", "moving") == b"1"
    with pytest.raises(Refused, match="MOVED"):
        source.ask("GET", "moving")


def test_while_a_slot_moves_the_old_owner_sends_on(cluster: RedisCluster) -> None:
    slot = cluster.slot_of("sent on")
    source = cluster.node_of(slot)
    target = next(node for node in cluster.nodes if node is not source)
    cluster.begin_move(slot, target)
    with pytest.raises(Refused, match="ASK"):
        source.ask("GET", "sent on")
    cluster.move(slot, target)


@pytest.mark.slow
def test_without_a_node_the_cluster_is_down_until_it_is_back(cluster: RedisCluster) -> None:
    lost, *others = cluster.nodes
    lost.kill()
    until(lambda: all(node.state()["cluster_state"] == "fail" for node in others), "it is noticed")
    cluster.wait_until_whole()
