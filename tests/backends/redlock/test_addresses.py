"""What a URL and its options say to the nodes, and what goes without saying."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

import locknut
from locknut import aio, redlock
from tests.servers.certificates import Certificates
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
HOLD = "locknut:{x}:redlock"
BUSY = 1.0
"""A busy machine's share."""


def taken(url: str) -> None:
    """In both colours."""
    with locknut.connect(url) as locks, locks.lock("x", timeout=10):

        async def story() -> None:
            async with aio.connect(url) as others:
                assert await others.lock("x").acquire(blocking=False) is None
                async with others.lock("y", timeout=10):
                    pass

        asyncio.run(story())


def test_tls_with_a_password(certificates: Certificates) -> None:
    with RedlockNodes(3, certificates=certificates, password="s3cret") as nodes:
        query = f"durable=true&ssl_ca_certs={certificates.authority}"
        taken(f"redlocks://:s3cret@{nodes.hosts}?{query}")
        stranger = f"redlocks://{nodes.hosts}?{query}"
        with locknut.connect(stranger) as locks, pytest.raises(locknut.LocknutError):
            locks.lock("x").acquire(timeout=0)


def test_the_database_is_that_of_every_node(three: RedlockNodes) -> None:
    with locknut.connect(f"redlock://{three.hosts}/2?durable=true") as locks, locks.lock("x"):
        known = []
        for node in three.nodes:
            with node.connect() as wire:
                wire.ask("SELECT", 2)
                known.append(wire.ask("EXISTS", HOLD))
            assert node.ask("EXISTS", HOLD) == 0
        assert sum(map(bool, known)) >= 2


def test_nodes_that_never_lose_data_vote_at_once(three: RedlockNodes) -> None:
    taken(f"redlock://{three.hosts}?durable=true")


def test_a_hold_lasts_for_thirty_seconds_and_half_a_second_more_on_the_nodes(
    three: RedlockNodes,
) -> None:
    with locknut.connect(three.url) as locks, locks.lock("x") as lease:
        assert 25 < lease.remaining < 30
        left = [node.ask("PTTL", HOLD) for node in three.nodes]
        known = [each for each in left if isinstance(each, int) and each > 0]
        assert len(known) >= 2
        for each in known:
            assert lease.remaining + 0.75 < each / 1000 <= 30.5


@pytest.mark.parametrize(("option", "limit"), [("", 0.3), ("&node_timeout=1.5", 1.5)])
def test_a_node_is_waited_for_so_long_where_a_majority_does_not_decide(
    three: RedlockNodes, option: str, limit: float
) -> None:
    """Whoever looks wants to hear all of them."""
    with locknut.connect(three.url + option) as locks, locks.lock("x") as lease:
        locks.info("x")
        three.nodes[0].stop()
        began = time.monotonic()
        info = lease.info()
        assert limit <= time.monotonic() - began < limit + BUSY
        three.nodes[0].cont()
        assert [bool(vote.problem) for vote in info.details] == [True, False, False]


def test_a_node_in_quarantine_renews_and_releases(three: RedlockNodes) -> None:
    """It still has the key, so it never gave it to anybody."""
    url = f"redlock://{three.hosts}"
    redlock.begin(url)
    with locknut.connect(url) as locks:
        lease: Any = locks.lock("x").acquire(timeout=10)
        for node in three.nodes[:2]:
            node.restart(keep_data=True)
        with pytest.raises(locknut.BackendUnavailable, match="does not vote"):
            locks.lock("y").acquire(timeout=1)
        lease.renew()
        assert lease.remaining > 25
        lease.release()
        assert not any(node.ask("EXISTS", HOLD) for node in three.nodes[:2])


@pytest.mark.parametrize("option", ["wait_replicas=1", "wait_replicas=1&wait_timeout=0.1"])
def test_waiting_for_replicas_is_refused(option: str) -> None:
    """A vote does not wait for replicas: the option would promise what nobody keeps."""
    with pytest.raises(locknut.ConfigurationError, match="wait_replicas= is for redis:"):
        locknut.connect(f"redlock://h1,h2,h3?{option}")
    of_a_node = redlock.Redlock([f"redis://h1?{option}", "redis://h2", "redis://h3"])
    with pytest.raises(locknut.ConfigurationError, match="wait_replicas= is for redis:"):
        locknut.connect(of_a_node)
