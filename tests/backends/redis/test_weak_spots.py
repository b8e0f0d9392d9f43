"""What other lock libraries were seen to get wrong on Redis, each shown to be right here.

The first class is the list of weak spots recorded of Redisson, the second that of Python's own.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from locknut.backends.redis import recipe
from locknut.core.values import Mode, State
from locknut.errors import LeaseLost
from locknut.testing.conformance.colours import PATIENCE
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


class OnRedis(Part):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url

    async def in_line(self, scene: Scene, server: RedisServer, count: int) -> None:
        async def stand() -> bool:
            return server.ask("ZCARD", f"{scene.namespace}:{{x}}:line") == count

        await scene.eventually(stand, f"never {count} in line")

    def left(self, scene: Scene, server: RedisServer, part: str = "") -> int:
        found = server.ask("PTTL", f"{scene.namespace}:{{x}}{part}")
        assert isinstance(found, int)
        return found


class WrongClock:
    """Stands for the module `time`."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead

    def time(self) -> float:
        return time.time() + self._ahead


class TestRedisson(OnRedis):
    async def test_a_downgrade_lets_the_readers_of_others_in(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """There it sends no message, and they stay detached."""
        book = scene.connect().rwlock("x")
        write, read = await book.write().acquire(), await book.read().acquire()
        seen = scene.gate()
        readers = [scene.spawn(lambda: self._read(scene, seen)) for _ in range(2)]
        await self.in_line(scene, redis_server, 2)
        await write.release()
        # In the very step of the downgrade, before anybody could have asked again.
        assert redis_server.ask("ZCARD", f"{scene.namespace}:{{x}}") == 3
        seen.open()
        for reader in readers:
            await reader.result()
        await read.release()

    async def _read(self, scene: Scene, seen: Any) -> None:
        lease = await scene.connect().rwlock("x").read().acquire(timeout=PATIENCE)
        assert lease is not None
        assert await seen.passed()
        await lease.release()

    async def test_all_waiting_readers_of_one_client_come_in_together(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """There one message wakes one thread per client: the second came 30 s later."""
        writer, client = scene.connect(), scene.connect()
        write = await writer.rwlock("x").write().acquire()
        inside = [scene.gate() for _ in range(3)]

        async def read(gate: Any) -> None:
            lease = await client.rwlock("x").read().acquire(timeout=PATIENCE)
            gate.open()
            for other in inside:  # all of them at the same time
                assert await other.passed()
            await lease.release()

        readers = [scene.spawn(lambda gate=gate: read(gate)) for gate in inside]  # type: ignore[misc]
        await self.in_line(scene, redis_server, 3)
        await write.release()
        for reader in readers:
            await reader.result()

    async def test_a_ttl_is_kept_whoever_asks_for_the_fence(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """There a lease that is asked for with its number lives for 30 s."""
        lease = await scene.connect().lock("x", ttl=5, auto_renew=False).acquire()
        assert lease.fence > 0
        assert 0 < self.left(scene, redis_server) <= 5000
        await lease.release()

    async def test_a_reader_of_a_short_ttl_shortens_nobodys(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """There each renewal sets the time of all."""
        long = await scene.connect().rwlock("x", ttl=60).read().acquire()
        short = await scene.connect().rwlock("x", ttl=3).read().acquire()
        await short.renew()
        name = f"{scene.namespace}:{{x}}"
        scores = redis_server.ask("ZRANGE", name, 0, -1, "WITHSCORES")
        assert isinstance(scores, list)
        ends = sorted(int(score) for score in scores[1::2])  # type: ignore[arg-type]
        assert ends[1] - ends[0] > 50_000
        assert self.left(scene, redis_server) > 50_000
        await short.release()
        assert long.held
        await long.renew()
        await long.release()

    async def test_entering_again_adds_nothing_to_the_ttl(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """There a second write adds its lease to the first one's."""
        lock = scene.connect().rwlock("x", ttl=10).write()
        first, second = await lock.acquire(), await lock.acquire()
        assert first.fence == second.fence
        assert self.left(scene, redis_server) <= 10_000
        await second.release()
        await first.release()

    @pytest.mark.parametrize("fair", [False, True])
    async def test_a_loss_is_told_without_a_release(
        self, scene: Scene, redis_server: RedisServer, fair: bool
    ) -> None:
        """There it is found out by unlocking, and of a fair lock not even then."""
        lease = await scene.connect().lock("x", ttl=1.2, fair=fair).acquire()
        told = scene.gate()
        lease.on_lost(lambda _: told.open())
        redis_server.ask("DEL", f"{scene.namespace}:{{x}}")
        assert await told.passed()
        assert lease.state is State.LOST
        with pytest.raises(LeaseLost):
            await lease.release()

    @pytest.mark.parametrize("hours", [-1000, 1000])
    async def test_no_decision_is_made_by_a_clients_clock(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch, redis_server: RedisServer, hours: int
    ) -> None:
        """There fair locks and permits run out by the clock of whoever looks."""
        held = await scene.connect().lock("x", fair=True).acquire()
        permit = await scene.connect().semaphore("pool", 1).acquire()
        monkeypatch.setattr(recipe, "time", WrongClock(hours * 3600.0))
        wrong = scene.connect()
        assert await wrong.lock("x", fair=True).acquire(blocking=False) is None
        assert await wrong.semaphore("pool", 1).acquire(blocking=False) is None
        for lease in (held, permit):
            await lease.renew()
            await lease.release()
        mine = await wrong.lock("x", ttl=20).acquire()
        assert 0 < self.left(scene, redis_server) <= 20_000
        await mine.release()

    async def test_a_dead_waiter_is_passed_over(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """There it blocks the queue for the lock's ttl and 300 s."""
        port, other = scene.port(), scene.port()
        holder, dead = scene.claim("x"), scene.claim("x")
        await port.attempt(holder, 0.0)
        await other.attempt(dead, 0.0)
        alive = f"{scene.namespace}:{{x}}:alive"
        (client,) = redis_server.ask("ZRANGE", alive, 0, -1)  # type: ignore[misc]
        redis_server.ask("ZADD", alive, 1, client)  # type: ignore[arg-type]  # silent for long
        waiter = scene.claim("x")
        await port.attempt(waiter, 0.0)
        await port.release(holder)
        assert redis_server.ask("GETRANGE", f"{scene.namespace}:{{x}}", 0, 31) == waiter.id.encode()
        await port.release(waiter)


class TestPython(OnRedis):
    async def test_a_lock_without_a_ttl_of_its_own_has_one(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """Seen: `expire=None` deleted the key at once, or left it for ever."""
        lease = await scene.connect().lock("x").acquire()
        assert 0 < self.left(scene, redis_server) <= 30_000
        await lease.release()

    async def test_who_lost_it_does_not_release_the_next_ones(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """Seen: the owner's mark shared by all tasks of a thread."""
        locks = scene.connect()
        lost = await locks.lock("x", ttl=scene.ttl, auto_renew=False).acquire()
        other = scene.connect()
        held = await other.lock("x").acquire(timeout=PATIENCE)
        with pytest.raises(LeaseLost):
            await lost.release()
        assert [each.fence for each in (await other.info("x")).holders] == [held.fence]
        await held.renew()
        await held.release()

    async def test_a_permit_of_the_dead_comes_back(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """Seen: permits are items of a list, and one that was popped by the dead is gone."""
        port = scene.port()
        dead = scene.claim("x", mode=Mode.PERMIT, permits=2, ttl=scene.ttl)
        await port.attempt(dead, 0.0)
        locks = scene.connect()
        pool = locks.semaphore("x", 2)
        first = await pool.acquire(timeout=PATIENCE)
        second = await pool.acquire(timeout=PATIENCE)
        assert first is not None
        assert second is not None
        await first.release()
        await second.release()

    async def test_nothing_is_left_that_does_not_run_out(
        self, scene: Scene, redis_server: RedisServer
    ) -> None:
        """Seen: fences, wake-up lists and queues that stay for ever."""
        locks = scene.connect()
        held = await locks.lock("x").acquire()
        waiter = scene.spawn(lambda: self._wait(scene))
        await self.in_line(scene, redis_server, 1)
        await held.release()
        await waiter.result()
        names = redis_server.ask("KEYS", f"{scene.namespace}:*")
        assert isinstance(names, list)
        ends = {name: redis_server.ask("PTTL", name) for name in names}  # type: ignore[arg-type]
        assert all(isinstance(left, int) and left != -1 for left in ends.values()), ends

    async def _wait(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x").acquire(timeout=PATIENCE)
        await lease.release()
