"""What is done to the server while somebody holds and somebody waits, in both colours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from locknut.core.values import State
from locknut.errors import BackendError, BackendUnavailable, LeaseLost
from locknut.testing.conformance.colours import PATIENCE, Worker
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
TTL = 1.5


class Queue:
    """A holder, and somebody in line behind him."""

    def __init__(self, scene: Scene, server: RedisServer) -> None:
        self.scene = scene
        self._server = server
        self.one, self.two = scene.connect(), scene.connect()
        self.lease: Any = None
        self.waiter: Worker

    async def form(self, **terms: Any) -> Any:
        self.lease = await self.one.lock("x", **terms).acquire()
        self.waiter = self.scene.spawn(self._wait)
        await self.stands()
        return self.lease

    async def _wait(self) -> Any:
        lease = await self.two.lock("x", ttl=30).acquire(timeout=PATIENCE)
        if lease is not None:
            await lease.release()
        return lease

    async def stands(self) -> None:
        """In line, and once."""
        await self.scene.eventually(self._in_line, "nobody waits")

    async def _in_line(self) -> bool:
        return self._server.ask("ZCARD", f"{self.scene.namespace}:{{x}}:line") == 1

    async def advances(self) -> None:
        """Who waits gets it, with a greater number."""
        later = await self.waiter.result()
        assert later is not None
        assert later.fence > self.lease.fence


async def lost(lease: Any) -> None:
    assert await lease.lost.wait(PATIENCE)
    with pytest.raises(LeaseLost):
        await lease.release()


class TestDisturbed(Part):
    """On a server that only loses data, scripts and connections."""

    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url

    async def test_flushall(self, scene: Scene, redis_server: RedisServer) -> None:
        queue = Queue(scene, redis_server)
        lease = await queue.form(ttl=3)
        redis_server.flushall()
        await lost(lease)
        assert lease.reason == "taken"
        await queue.advances()

    async def test_scripts_are_flushed(self, scene: Scene, redis_server: RedisServer) -> None:
        queue = Queue(scene, redis_server)
        lease = await queue.form()
        redis_server.script_flush()
        await lease.renew()
        redis_server.script_flush()
        text = await lease.detach()
        redis_server.script_flush()
        moved = await queue.one.attach(text)
        redis_server.script_flush()
        await moved.release()
        await queue.advances()
        redis_server.script_flush()
        async with queue.one.all("y", "z"):
            redis_server.script_flush()
        book = queue.one.rwlock("x")
        write, read = await book.write().acquire(), await book.read().acquire()
        redis_server.script_flush()
        await write.release()
        redis_server.script_flush()
        assert await queue.two.force_release("x")
        with pytest.raises(LeaseLost):
            await read.release()

    async def test_connections_are_cut(self, scene: Scene, redis_server: RedisServer) -> None:
        queue = Queue(scene, redis_server)
        lease = await queue.form()
        redis_server.client_kill()
        await queue.stands()
        await lease.release()
        await queue.advances()

    @pytest.mark.parametrize("part", [":fence", ":alive", ":line", ":info"])
    async def test_a_key_of_the_line_is_deleted(
        self, scene: Scene, redis_server: RedisServer, part: str
    ) -> None:
        queue = Queue(scene, redis_server)
        lease = await queue.form()
        redis_server.ask("DEL", f"{scene.namespace}:{{x}}{part}")
        assert lease.held
        await lease.renew()
        await lease.release()
        await queue.advances()

    async def test_the_hold_is_deleted(self, scene: Scene, redis_server: RedisServer) -> None:
        queue = Queue(scene, redis_server)
        lease = await queue.form(ttl=TTL)
        redis_server.ask("DEL", f"{scene.namespace}:{{x}}")
        await lost(lease)
        await queue.advances()

    @pytest.mark.parametrize("part", ["", ":fence", ":alive", ":line", ":info"])
    async def test_a_key_is_of_another_type(
        self, scene: Scene, redis_server: RedisServer, part: str
    ) -> None:
        """Who would need it is told which; nobody holds anything, and nothing else is disturbed."""
        locks, other = scene.connect(), scene.connect()
        name = f"{scene.namespace}:{{x}}{part}"
        redis_server.ask("RPUSH", name, "not a lock's")

        async def take_and_wait() -> None:
            await locks.lock("x").acquire(timeout=0)
            await other.lock("x").acquire(timeout=PATIENCE)  # :line and :info are for who waits

        with pytest.raises(BackendError, match="not a lock's") as caught:
            await take_and_wait()
        assert not isinstance(caught.value, BackendUnavailable)
        assert caught.value.key == "x"
        async with locks.lock("y", timeout=0):
            pass
        redis_server.ask("DEL", name)
        await scene.eventually(lambda: _free(locks), "what was held stays")

    async def test_a_key_of_another_type_under_a_holder(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        locks = scene.connect()
        lease = await locks.lock("x", ttl=TTL).acquire()
        name = f"{scene.namespace}:{{x}}"
        redis_server.ask("DEL", name)
        redis_server.ask("SADD", name, "not a lock's")
        assert await lease.lost.wait(PATIENCE)
        with pytest.raises(LeaseLost):
            await lease.release()
        redis_server.ask("DEL", name)
        await scene.free(locks, "x")


async def _free(locks: Any) -> bool:
    for lease in (await locks.info("x")).holders:
        await locks.force_release("x", fence=lease.fence)
    return not (await locks.info("x")).locked


@pytest.fixture(scope="module")
def private() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


class TestStopped(Part):
    """On a server of its own, which is stopped, frozen and killed."""

    @pytest.fixture
    def engine_url(self, private: RedisServer) -> str:
        private.start()
        return f"{private.url}?socket_timeout=0.5"

    async def test_stopped_for_longer_than_a_ttl(self, scene: Scene, private: RedisServer) -> None:
        queue = Queue(scene, private)
        lease = await queue.form(ttl=TTL)
        private.stop()
        assert await lease.lost.wait(PATIENCE), "lost by its own clock, whatever the server says"
        assert lease.reason == "expired"
        private.cont()
        await queue.advances()
        with pytest.raises(LeaseLost):
            await lease.release()

    async def test_stopped_for_less_than_a_ttl(self, scene: Scene, private: RedisServer) -> None:
        queue = Queue(scene, private)
        news = scene.news(queue.one)
        lease = await queue.form(ttl=6)
        private.stop()
        await news.heard("at_risk")
        private.cont()
        await lease.renew()
        assert lease.state is State.HELD
        await lease.release()
        await queue.advances()

    async def test_frozen_for_a_while(self, scene: Scene, private: RedisServer) -> None:
        queue = Queue(scene, private)
        lease = await queue.form(ttl=30)
        with private.freeze(1.0) as wire:
            wire.read()
        assert lease.held
        await queue.stands()
        await lease.release()
        await queue.advances()

    @pytest.mark.parametrize("keep_data", [True, False])
    async def test_killed(self, scene: Scene, private: RedisServer, keep_data: bool) -> None:
        queue = Queue(scene, private)
        lease = await queue.form(ttl=30 if keep_data else TTL)
        private.restart(keep_data=keep_data)
        if not keep_data:
            await lost(lease)
        else:
            await queue.stands()
            await lease.release()
        await queue.advances()

    async def test_killed_and_away(self, scene: Scene, private: RedisServer) -> None:
        """Nobody to ask: the lease runs out, an acquire says so after a while, then all is well."""
        locks = scene.connect()
        lease = await locks.lock("x", ttl=TTL).acquire()
        private.kill()
        assert await lease.lost.wait(PATIENCE)
        with pytest.raises(BackendUnavailable):
            await locks.lock("y").acquire(blocking=False)
        private.start()
        later = await locks.lock("x").acquire(timeout=PATIENCE)
        assert later.fence > lease.fence
        await later.release()
