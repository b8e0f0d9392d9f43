"""A node that lost its data gives no vote for the longest ttl, however it lost them.

One client holds a lock by two of three nodes, for it is cut off from the third. One of the two
forgets: nobody else may come in, as long as the first is sure of its hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

import locknut
from locknut import redlock
from locknut.errors import BackendUnavailable, LocknutError
from tests.backends.redlock.cutting_off import TTL, holding, nobody_else_comes_in, only, url_of
from tests.servers.ports import Ports
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.sentinel import SentinelService

pytestmark = pytest.mark.redis


@contextmanager
def ready(nodes: RedlockNodes) -> Iterator[str]:
    """A set in use: every node votes, and has been up for longer than the longest ttl."""
    redlock.begin(url_of(nodes))
    up = [node.info()["uptime_in_seconds"] for node in nodes.nodes]
    until(lambda: all(int(n.info()["uptime_in_seconds"]) > TTL for n in nodes.nodes), f"up: {up}")
    yield url_of(nodes)


def flushed(node: RedisServer, _spare: RedisServer) -> None:
    node.flushall()


def took_over_an_empty_one(node: RedisServer, spare: RedisServer) -> None:
    """REPLICAOF and back: no FLUSH was ever called, and the process is the same."""
    spare.flushall()
    node.ask("REPLICAOF", spare.host, spare.port)
    until(lambda: node.info("replication").get("master_link_status") == "up", "synced")
    node.ask("REPLICAOF", "NO", "ONE")


def took_over_its_own_past(node: RedisServer, spare: RedisServer) -> None:
    """It was replaced for a moment by a replica that lags, and followed it: its own marker is back,
    and the hold is not.
    """
    node.ask("REPLICAOF", spare.host, spare.port)
    until(lambda: node.info("replication").get("master_link_status") == "up", "synced")
    node.ask("REPLICAOF", "NO", "ONE")


def restarted_from_a_snapshot(node: RedisServer, _spare: RedisServer) -> None:
    """The marker is in it, and the hold is not."""
    node.kill()
    node.start()


def replaced_by(node: RedisServer, spare: RedisServer) -> None:
    """Another server, which has been up for long, has its address now."""
    node.kill()
    spare.ask("REPLICAOF", "NO", "ONE")
    spare.ask("CONFIG", "SET", "port", node.port)


@pytest.mark.parametrize(
    ("how", "lags"),
    [
        (flushed, False),
        (took_over_an_empty_one, False),
        (took_over_its_own_past, True),
        (restarted_from_a_snapshot, False),
        (replaced_by, False),
        (replaced_by, True),
    ],
    ids=["flushed", "resynced", "own past", "snapshot", "swapped", "promoted"],
)
@pytest.mark.slow
def test_it_gives_no_vote_while_somebody_may_count_on_it(
    how: Callable[[RedisServer, RedisServer], None], lags: bool, three: RedlockNodes
) -> None:
    node = three.nodes[2]
    with RedisServer() as spare, ready(three) as url:
        if lags:  # a replica that has the marker, and not the hold
            spare.ask("REPLICAOF", node.host, node.port)
            node.wait_for_replicas(1)
            spare.ask("REPLICAOF", "NO", "ONE")
        if how is restarted_from_a_snapshot:
            node.ask("SAVE")
        with holding(three, without=1) as lease:
            how(node, spare)
            nobody_else_comes_in(url, lease)
        if how is replaced_by:
            node.ask("CONFIG", "SET", "port", spare.port)


@pytest.mark.slow
def test_a_detached_hold_that_somebody_had_is_not_attached_again(three: RedlockNodes) -> None:
    """The first one attached it by two nodes and released it. One of the two comes back with an old
    copy of the detached hold, and the third has it still: together they are a majority.
    """
    url = url_of(three, max_ttl=60)
    redlock.begin(url)
    with locknut.connect(url) as locks:
        lease = locks.lock("x", ttl=60, auto_renew=False).acquire()
        assert lease is not None
        key = "locknut:{x}:redlock"

        def all_have_it() -> bool:
            lease.renew()  # a node that was slow to answer the vote gets it now
            return all(node.ask("EXISTS", key) for node in three.nodes)

        until(all_have_it, "all have it")
        text = lease.detach()
        three.nodes[2].ask("SAVE")
    with only(three, 1, 2) as some, locknut.connect(f"{some}&max_ttl=60") as locks:
        locks.attach(text).release()
        until(lambda: not any(node.ask("EXISTS", key) for node in three.nodes[1:]), "released")
    restarted_from_a_snapshot(three.nodes[2], three.nodes[2])
    assert three.nodes[2].ask("EXISTS", key)
    with (
        locknut.connect(url) as locks,
        pytest.raises(BackendUnavailable, match="lost its data, and does not vote"),
    ):
        locks.attach(text)


@pytest.mark.parametrize("gone", [True, False], ids=["gone", "answering"])
@pytest.mark.slow
def test_a_server_that_is_replaced_has_to_be_gone(three: RedlockNodes, gone: bool) -> None:
    """The page says so. One that goes on answering whoever is connected to it votes beside the one
    that has its address now, and no node can tell: each of the two has a majority with another.
    """
    node, ports = three.nodes[2], Ports()
    (elsewhere,) = ports.reserve(1)
    with RedisServer() as spare, ready(three) as url, holding(three, without=1) as lease:
        node.kill() if gone else node.ask("CONFIG", "SET", "port", elsewhere)
        spare.ask("CONFIG", "SET", "port", node.port)
        with locknut.connect(url) as locks:
            other, give_up = None, time.monotonic() + 60
            while other is None:
                assert time.monotonic() < give_up, "nobody ever gets it"
                with suppress(LocknutError):
                    lease.renew()
                with suppress(BackendUnavailable):
                    other = locks.lock("x", ttl=2).acquire(timeout=0.5)
            assert lease.held is not gone
            other.release()
    ports.close()


@pytest.mark.slow
def test_a_master_that_sentinels_made_gives_no_vote_for_the_longest_ttl(
    redis_sentinel: SentinelService,
) -> None:
    group = redis_sentinel
    with RedisServer() as one, RedisServer() as other:
        urls = [group.url, *(f"redis://{each.host}:{each.port}" for each in (one, other))]
        with locknut.connect(redlock.Redlock(urls, max_ttl=TTL, failover=True)) as locks:

            def votes() -> bool:
                """As itself: what it has of its predecessor's marker does not count."""
                with suppress(BackendUnavailable), locks.lock("warm", timeout=1):
                    terms = group.master.ask("HGET", "locknut:redlock", "votes")
                    run = group.master.info()["run_id"].encode()
                    return isinstance(terms, bytes) and terms.startswith(run)
                return False

            until(votes, "the group votes")
            before = group.master.info()["run_id"]
            group.failover()
            began = time.monotonic()
            assert group.master.info()["run_id"] != before
            assert int(group.master.info()["uptime_in_seconds"]) > 0
            until(votes, "the new master votes")
            assert time.monotonic() - began > TTL
