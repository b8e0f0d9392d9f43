"""A Locks of a loop that is dropped without `close()`: its connections and its keeper go too.

The loop, or the thread of a driver, would keep them for as long as the program lives.
"""

from __future__ import annotations

import asyncio
import gc
import secrets
import threading
import warnings

import pytest

from locknut import aio
from locknut.core import keeper
from tests.api.crowd import PATIENCE
from tests.forks.child import sockets

SERVERS = {
    "redis": "redis_server",
    "redlock": "redlock_nodes",
    "zookeeper": "zookeeper_server",
}


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in SERVERS])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(SERVERS[request.param]).url
    return f"{found}{'&' if '?' in found else '?'}namespace={secrets.token_hex(8)}"


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.filterwarnings("ignore:a locknut.aio.Locks was dropped:ResourceWarning")
def test_its_connections_and_its_keeper_go(
    url: str, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "IDLE", 0.05)  # as long as the keeper is there, so is the rest

    async def use() -> None:
        lock = aio.connect(url).lock("x", ttl=2)
        async with lock:
            pass
        if held:
            assert await lock.acquire() is not None

    async def story() -> None:
        before = sockets(), threads()
        # In a task: who ends with a hold has let go of it.
        await asyncio.create_task(use())
        async with asyncio.timeout(PATIENCE):
            while sockets() - before[0] or threads() - before[1]:
                gc.collect()
                await asyncio.sleep(0.01)
        async with aio.connect(url) as others, others.lock("x", timeout=PATIENCE):
            pass

    asyncio.run(story())


def test_it_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeper, "IDLE", 0.05)

    async def story() -> None:
        async with aio.connect(url).lock("x", ttl=2):
            pass
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            async with asyncio.timeout(PATIENCE):
                while not any("without `await locks.close" in str(each) for each in caught):
                    gc.collect()
                    await asyncio.sleep(0.01)

    asyncio.run(story())
