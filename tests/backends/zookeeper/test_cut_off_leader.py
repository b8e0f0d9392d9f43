"""A leader that the majority has left answers `sync` alone, and does not know it for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

import locknut
from locknut import aio
from locknut.core.values import State
from locknut.testing.proxy import FaultProxy
from tests.backends.zookeeper.conftest import PATIENCE, kazoo_client, root
from tests.servers.processes import until
from tests.servers.zookeeper import ZooKeeperEnsemble

pytestmark = [pytest.mark.zookeeper, pytest.mark.faults]

SESSION = 3.0
SYNC_LIMIT = 200
"""Ticks of 0.2 s for which the leader goes on alone: longer than any session here."""


class Deserted:
    """An ensemble whose third server leads, and whose others reach it through a proxy each."""

    def __init__(self) -> None:
        self.ensemble = ZooKeeperEnsemble(sync_limit=SYNC_LIMIT)
        self.ensemble.choose_ports()
        *self.others, self.leader = self.ensemble.servers
        self.proxies: list[FaultProxy] = []
        for server in self.others:
            proxy = FaultProxy(("127.0.0.1", self.leader.peers[2].quorum))
            server.peers = [*server.peers[:2], replace(server.peers[2], quorum=proxy.port)]
            self.proxies.append(proxy)
        for server in (self.others[1], self.leader):  # the higher number of the two will lead
            server.launch()
        until(lambda: self.leader.mode == "leader", "the third one leads")
        self.others[0].start()
        self.others[1].wait()
        self.rest = f"zookeeper://{','.join(server.address for server in self.others)}"

    def desert(self) -> None:
        """It is cut off, and the others are restarted: so they notice, and the leader does not."""
        for proxy in self.proxies:
            proxy.black_hole()
            proxy.refuse()
        for server in self.others:
            server.kill()
        for server in self.others:
            server.launch()
        until(lambda: "leader" in {server.mode for server in self.others}, "a new leader")

    def close(self) -> None:
        for proxy in self.proxies:
            proxy.close()
        self.ensemble.close()


@pytest.fixture
def deserted() -> Iterator[Deserted]:
    made = Deserted()
    yield made
    made.close()


def _assert_alone_it_answers(naive: KazooClient, deserted: Deserted) -> None:
    """The scenario is the one: the leader of the past vouches for sessions that are over."""
    assert deserted.leader.mode == "leader"
    naive.sync("/")
    assert naive.connected


@pytest.mark.slow
def test_nobody_holds_twice(deserted: Deserted) -> None:
    path = root()
    url = f"{deserted.leader.url}/{path}?session_timeout={SESSION:g}"
    with (
        locknut.connect(url) as ours,
        locknut.connect(f"{deserted.rest}/{path}") as others,
        kazoo_client(deserted.leader.address, SESSION) as naive,
    ):
        lease = ours.lock("x").acquire()
        assert lease is not None
        assert others.lock("x").acquire(timeout=0) is None
        deserted.desert()
        with others.lock("x", timeout=PATIENCE) as next_one:
            assert lease.state is State.LOST
            assert next_one.fence > lease.fence
            _assert_alone_it_answers(naive, deserted)


@pytest.mark.slow
def test_the_same_on_a_loop_for_a_session_that_was_taken_back(deserted: Deserted) -> None:
    """The client reconnects to the leader of the past, which knows its session."""

    async def story() -> None:
        path = root()
        with FaultProxy(("127.0.0.1", deserted.leader.port)) as way:
            url = f"zookeeper://127.0.0.1:{way.port}/{path}?session_timeout={SESSION:g}"
            async with (
                aio.connect(url) as ours,
                aio.connect(f"{deserted.rest}/{path}") as others,
            ):
                lease = await ours.lock("x").acquire()
                assert lease is not None
                assert await others.lock("x").acquire(timeout=0) is None
                await asyncio.to_thread(deserted.desert)
                await asyncio.sleep(SESSION / 2)
                way.cut()
                async with others.lock("x", timeout=PATIENCE):
                    assert lease.state is State.LOST
                assert deserted.leader.mode == "leader"

    asyncio.run(story())
