"""No thread is left for kazoo's client: an error that says so, and the next call tries again."""

from __future__ import annotations

import asyncio

import pytest

import locknut
import locknut.aio
from locknut.core.values import Granted
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.zookeeper.conftest import claim, engine
from tests.no_threads import SAYS, no_threads
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper


@pytest.mark.parametrize("asked_by", ["", "locknut-start"])
def test_the_next_call_has_a_connection(zookeeper_server: ZooKeeperServer, asked_by: str) -> None:
    """It was never tried again after kazoo's own thread could not be started."""
    with locknut.connect(zookeeper_server.url) as locks:
        with no_threads(asked_by), pytest.raises(locknut.BackendUnavailable, match=SAYS):
            locks.lock("x").acquire(timeout=0)
        with locks.lock("x", timeout=20):
            pass


@pytest.mark.parametrize("asked_by", ["", "locknut-start"])
def test_on_a_loop(zookeeper_server: ZooKeeperServer, asked_by: str) -> None:
    async def story() -> None:
        async with locknut.aio.connect(zookeeper_server.url) as locks:
            with no_threads(asked_by), pytest.raises(locknut.BackendUnavailable, match=SAYS):
                await locks.lock("x").acquire(timeout=0)
            async with locks.lock("x", timeout=20):
                pass

    asyncio.run(story())


def test_the_session_is_closed_all_the_same(zookeeper_server: ZooKeeperServer) -> None:
    """It stayed until its timeout, with what it held, and closing raised."""
    backend = engine(zookeeper_server.url).blocking(ThreadRuntime())
    assert isinstance(run(backend.attempt(claim(), 0.0)), Granted)
    with no_threads():
        run(backend.close())
    nobody_holds(zookeeper_server)


def test_the_session_of_a_loop_is_closed_all_the_same(zookeeper_server: ZooKeeperServer) -> None:
    async def story() -> None:
        backend = engine(zookeeper_server.url).asyncio(LoopRuntime())
        assert isinstance(await backend.attempt(claim(), 0.0), Granted)
        with no_threads():
            await backend.close()

    asyncio.run(story())
    nobody_holds(zookeeper_server)


def nobody_holds(server: ZooKeeperServer) -> None:
    with locknut.connect(server.url, namespace="t") as others:
        assert not others.list()
