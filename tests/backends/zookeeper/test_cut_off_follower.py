"""A follower cut off from the leader answers pings while the leader expires the session (S9)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from kazoo.client import KazooClient

import locknut
from locknut import aio
from locknut.core.values import State
from locknut.testing.proxy import FaultProxy
from tests.backends.zookeeper.conftest import PATIENCE, kazoo_client, root
from tests.servers.processes import until
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]

SESSION = 4.0
SYNC_LIMIT = 75
"""Ticks of 0.2 s that the follower goes on alone: longer than any session here."""


class Divided:
    """An ensemble whose first server reaches the leader through a proxy alone."""

    def __init__(self) -> None:
        self.ensemble = ZooKeeperEnsemble(sync_limit=SYNC_LIMIT)
        self.ensemble.choose_ports()
        self.follower, *others = self.ensemble.servers
        leader = others[-1]
        self.proxy = FaultProxy(("127.0.0.1", leader.peers[2].quorum))
        near = [*leader.peers[:2], replace(leader.peers[2], quorum=self.proxy.port)]
        self.follower.peers = near
        for server in others:  # the higher number of the two becomes the leader
            server.launch()
        until(lambda: leader.mode == "leader", "the third one leads")
        self.follower.start()
        self.rest = f"zookeeper://{','.join(server.address for server in others)}"

    def close(self) -> None:
        self.proxy.close()
        self.ensemble.close()


@pytest.fixture
def divided() -> Iterator[Divided]:
    made = Divided()
    yield made
    made.close()


def holder_url(server: ZooKeeperServer, path: str) -> str:
    return f"{server.url}/{path}?session_timeout={SESSION:g}"


@pytest.mark.slow
def test_nobody_holds_twice_and_kazoo_does(divided: Divided) -> None:
    """kazoo beside us shows that the scenario is the one: it believes to hold, and is connected."""
    path = root()
    with (
        locknut.connect(holder_url(divided.follower, path)) as ours,
        locknut.connect(f"{divided.rest}/{path}") as others,
        kazoo_client(divided.follower.address, SESSION) as naive,
    ):
        lease = ours.lock("x").acquire()
        assert lease is not None
        theirs = naive.Lock(f"/{path}/locknut/kazoos")
        theirs.acquire()
        assert not lease.lost.wait(SESSION * 1.5), "nothing is wrong yet"
        divided.proxy.black_hole()
        with others.lock("x", timeout=PATIENCE) as next_one:
            assert lease.state is State.LOST
            assert next_one.fence > lease.fence
            _assert_fooled(naive, theirs, divided)


def _assert_fooled(naive: KazooClient, theirs: Any, divided: Divided) -> None:
    with kazoo_client(divided.rest.removeprefix("zookeeper://")) as other:
        second = other.Lock(theirs.path)
        assert second.acquire(timeout=PATIENCE)
        assert theirs.is_acquired
        assert naive.connected


@pytest.mark.slow
def test_the_same_on_a_loop(divided: Divided) -> None:
    async def story() -> None:
        path = root()
        async with (
            aio.connect(holder_url(divided.follower, path)) as ours,
            aio.connect(f"{divided.rest}/{path}") as others,
        ):
            lease = await ours.lock("x").acquire()
            assert lease is not None
            divided.proxy.black_hole()
            async with others.lock("x", timeout=PATIENCE):
                assert lease.state is State.LOST

    asyncio.run(story())
