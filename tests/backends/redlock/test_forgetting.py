"""A node that lost its data gives no vote for the longest ttl, however it lost them.

One client holds a lock by two of three nodes, for it is cut off from the third. One of the two
forgets: nobody else may come in, as long as the first is sure of its hold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

import locknut
from locknut import redlocks
from locknut.errors import BackendUnavailable
from locknut.testing.proxy import FaultProxy
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.sentinel import SentinelService

pytestmark = pytest.mark.redis
TTL = 3.0
NAMED = f"max_ttl={TTL:g}&set_name=one"
"""Those who are cut off know a node by another address, so the set has a name."""


def url_of(nodes: RedlockNodes) -> str:
    return f"redlock://{nodes.hosts}?{NAMED}"


@contextmanager
def ready(nodes: RedlockNodes) -> Iterator[str]:
    """A set in use: every node votes, and has been up for longer than the longest ttl."""
    redlocks.begin(url_of(nodes))
    up = [node.info()["uptime_in_seconds"] for node in nodes.nodes]
    until(lambda: all(int(n.info()["uptime_in_seconds"]) > TTL for n in nodes.nodes), f"up: {up}")
    yield url_of(nodes)


@contextmanager
def holding(nodes: RedlockNodes, without: int) -> Iterator[locknut.Lease]:
    """By the two others alone."""
    with ExitStack() as stack:
        ways = [stack.enter_context(FaultProxy((n.host, n.port))) for n in nodes.nodes]
        ways[without].refuse()
        hosts = ",".join(f"{way.host}:{way.port}" for way in ways)
        locks = stack.enter_context(locknut.connect(f"redlock://{hosts}?{NAMED}"))
        lease = locks.lock("x", ttl=TTL, auto_renew=False).acquire(timeout=5)
        assert lease is not None
        others = [each for at, each in enumerate(nodes.nodes) if at != without]
        until(lambda: all(n.ask("EXISTS", "locknut:{x}:redlock") for n in others), "both voted")
        yield lease


def nobody_else_comes_in(url: str, lease: locknut.Lease) -> None:
    """Until the hold is over; then somebody does, with a larger fence."""
    with locknut.connect(url) as locks:
        other = None
        give_up = time.monotonic() + 60
        while other is None:
            assert time.monotonic() < give_up, "nobody ever gets it"
            with suppress(BackendUnavailable):
                other = locks.lock("x", ttl=TTL).acquire(timeout=1)
        assert not lease.held, f"two hold it; the first for {lease.remaining} s more"
        assert other.fence > lease.fence
        other.release()


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
        (replaced_by, False),
        (replaced_by, True),
    ],
    ids=["flushed", "resynced", "own past", "swapped", "promoted"],
)
def test_it_gives_no_vote_while_somebody_may_count_on_it(
    how: Callable[[RedisServer, RedisServer], None], lags: bool, three: RedlockNodes
) -> None:
    node = three.nodes[2]
    with RedisServer() as spare, ready(three) as url:
        if lags:  # a replica that has the marker, and not the hold
            spare.ask("REPLICAOF", node.host, node.port)
            node.wait_for_replicas(1)
            spare.ask("REPLICAOF", "NO", "ONE")
        with holding(three, without=1) as lease:
            how(node, spare)
            assert lease.held, "it took too long to show anything"
            nobody_else_comes_in(url, lease)
        if how is replaced_by:
            node.ask("CONFIG", "SET", "port", spare.port)


def test_a_master_that_sentinels_made_gives_no_vote_for_the_longest_ttl(
    redis_sentinel: SentinelService,
) -> None:
    group = redis_sentinel
    with RedisServer() as one, RedisServer() as other:
        urls = [group.url, *(f"redis://{each.host}:{each.port}" for each in (one, other))]
        with locknut.redlock(urls, max_ttl=TTL, failover=True) as locks:
            marker = "locknut:redlock"

            def votes() -> bool:
                with suppress(BackendUnavailable), locks.lock("warm", timeout=1):
                    return bool(group.master.ask("HEXISTS", marker, "votes"))
                return False

            until(votes, "the group votes")
            before = group.master.info()["run_id"]
            group.failover()
            began = time.monotonic()
            assert group.master.info()["run_id"] != before
            assert int(group.master.info()["uptime_in_seconds"]) > 0
            until(votes, "the new master votes")
            assert time.monotonic() - began > TTL
