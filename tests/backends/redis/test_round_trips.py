"""What a lock costs: how many commands, round trips and connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from locknut.testing.proxy import FaultProxy
from tests.backends.redis.conftest import PATIENCE, somebody_waits
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


class TestAlone(Part):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url

    async def test_one_command_takes_it_and_one_gives_it_back(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        locks = scene.connect()
        async with locks.lock("x"):
            pass  # connected, and the scripts are known
        before = redis_server.scripts_run()
        lease = await locks.lock("x").acquire()
        assert redis_server.scripts_run() - before == 1
        await lease.release()
        assert redis_server.scripts_run() - before == 2

    async def test_what_was_pushed_gets_its_full_ttl_soon(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """A grant by somebody's release lives for 3 s, until its owner has confirmed it."""
        locks, others = scene.connect(), scene.connect()
        news = scene.news(others)
        held = await locks.lock("x").acquire()
        waiter = scene.spawn(lambda: _taken(others))
        await news.heard("waiting")
        await held.release()
        lease = await waiter.result()

        async def confirmed() -> bool:
            left: Any = redis_server.ask("PTTL", f"{scene.namespace}:{{x}}")
            return bool(left > 50_000)

        await scene.eventually(confirmed, "it has only the time of its short grant")
        assert lease.held
        await lease.release()


class TestRoundTrips(Part):
    """All commands arrive though not one answer comes back."""

    @pytest.fixture
    def proxy(self, redis_server: RedisServer) -> Iterator[FaultProxy]:
        with FaultProxy((redis_server.host, redis_server.port)) as proxy:
            self._url = redis_server.url_through(proxy.port) + "?socket_timeout=20"
            yield proxy

    @pytest.fixture
    def engine_url(self, proxy: FaultProxy) -> str:
        return self._url

    async def test_looking_is_one(
        self, scene: Scene, proxy: FaultProxy, redis_server: RedisServer
    ) -> None:
        """For the lock and the permits of the same name."""
        locks = scene.connect()
        async with locks.lock("x", ttl=60):
            await locks.info("x")  # the script is known from now on
            info = await unanswered(scene, proxy, redis_server, lambda: locks.info("x"), 2)
            assert info.locked

    async def test_giving_several_back_is_one(
        self, scene: Scene, proxy: FaultProxy, redis_server: RedisServer
    ) -> None:
        locks = scene.connect()
        async with locks.all("a", "b"):
            pass
        leases = await locks.all("a", "b", "c").acquire()
        await unanswered(scene, proxy, redis_server, leases.release, 3)
        assert not await locks.list()


async def unanswered(
    scene: Scene, proxy: FaultProxy, server: RedisServer, work: Callable[[], Any], scripts: int
) -> Any:
    """What comes of it, where so many scripts have run before the first answer is let through."""
    before = server.scripts_run()
    proxy.replies.hold()

    async def do() -> Any:
        return await work()

    worker = scene.spawn(do)

    async def all_have_run() -> bool:
        return server.scripts_run() - before == scripts

    await scene.eventually(all_have_run, "it waits for an answer in between")
    proxy.replies.release()
    return await worker.result()


async def _taken(locks: Any) -> Any:
    return await locks.lock("x", ttl=60).acquire(timeout=PATIENCE)


def test_a_loop_has_one_connection_for_all_its_tasks() -> None:
    """On a server that nobody else has ever used."""

    async def take(locks: aio.Locks, name: str) -> None:
        async with locks.lock(name, ttl=600):
            await asyncio.sleep(0)

    async def story() -> None:
        others = locknut.connect(server.url, namespace="t")
        async with aio.connect(server.url, namespace="t") as locks:
            held = others.lock("x").acquire()
            assert held is not None
            waiter = asyncio.create_task(locks.lock("x", ttl=600).acquire())
            await somebody_waits(locks)
            await asyncio.gather(*(take(locks, f"n{each}") for each in range(50)))
            assert streams(server) == 1
            held.release()
            lease = await asyncio.wait_for(waiter, PATIENCE)
            assert lease is not None
            await lease.release()
        others.close()

    with RedisServer() as server:
        asyncio.run(story())


def streams(server: RedisServer) -> int:
    told = server.ask("CLIENT", "LIST")
    assert isinstance(told, bytes)
    return told.count(b"resp=3")
