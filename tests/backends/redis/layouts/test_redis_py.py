"""One lock, two libraries: Locknut and redis-py's own `Lock`, blocking and asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError

from locknut.backends.redis.layouts import redis_py
from locknut.core.values import Busy, Granted, Renewal
from locknut.errors import BackendError, LeaseLost, Unsupported
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.backends.redis.layouts.conftest import key, keys, left
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    """As somebody would use it."""
    with redis.Redis(host=server.host, port=server.port) as made:
        yield made


def theirs(client: Any, scene: Scene, **terms: Any) -> Any:
    return client.lock(key(scene), **{"timeout": 30, "thread_local": False, **terms})


class _Layout(Part):
    @pytest.fixture
    def engine_url(self, server: RedisServer) -> str:
        return f"{server.url}?layout=redis-py"


class TestWhatStandsThere(_Layout):
    """A string, as `SET name token NX PX` leaves it."""

    async def test_a_hold(self, scene: Scene, server: RedisServer) -> None:
        locks, name = scene.connect(), key(scene)
        async with locks.lock("x", ttl=20) as lease:
            assert server.ask("TYPE", name) == b"string"
            value = server.ask("GET", name)
            assert isinstance(value, bytes)
            assert len(bytes.fromhex(value.decode())) == 16
            assert 19_000 < left(server, name) <= 20_000
            fence, claims = f"locknut_fence:{{{name}}}", f"locknut_claims:{{{name}}}"
            assert keys(server) == sorted([name, fence, claims])
            assert 0 < left(server, fence) <= 3_660_000
            assert 0 < left(server, claims) <= 21_000
            assert int(server.ask("GET", fence) or 0) * 32 == lease.fence  # type: ignore[arg-type]
        assert keys(server) == [fence]

    async def test_an_owner_of_ours_goes_in_twice_and_theirs_not_at_all(
        self, scene: Scene, client: Any
    ) -> None:
        one, two = scene.connect(), scene.connect()
        first = await one.lock("x", owner="me").acquire()
        second = await two.lock("x", owner="me").acquire(timeout=0)
        assert first.fence == second.fence
        await first.release()
        assert not theirs(client, scene).acquire(blocking=False, token="me")
        await second.release()
        lock = theirs(client, scene)
        assert lock.acquire(blocking=False, token="me")
        assert await one.lock("x", owner="me").acquire(timeout=0) is None, "its release frees all"
        lock.release()


class TestTogether(_Layout):
    """Never both at once, and nobody waits for ever."""

    async def test_it_waits_for_us(self, scene: Scene, client: Any) -> None:
        locks, lock = scene.connect(), theirs(client, scene)
        async with locks.lock("x"):
            assert lock.locked()
            assert not lock.acquire(blocking=False)
            assert not lock.acquire(blocking_timeout=0.15)
            with pytest.raises(LockError):
                lock.release()
        assert lock.acquire(blocking=False)
        lock.release()

    async def test_we_wait_for_it(self, scene: Scene, client: Any) -> None:
        locks, lock = scene.connect(), theirs(client, scene)
        assert lock.acquire()
        assert await locks.lock("x").acquire(timeout=0.05) is None
        (holder,) = (await locks.info("x")).holders
        assert (holder.label, holder.fence) == ("another client", None)
        assert not await locks.list(), "only what was taken through Locknut"
        assert 0 < (holder.ttl_left or 0) <= 30
        assert lock.local.token.decode() not in repr(holder)
        assert lock.extend(10)
        assert lock.reacquire()
        waiting = await _waiting(scene)
        lock.release()
        assert (await waiting.result()).held

    async def test_its_asyncio_lock_and_ours(self, scene: Scene, server: RedisServer) -> None:
        locks = scene.connect()

        async def story() -> None:
            async with redis.asyncio.Redis(host=server.host, port=server.port) as there:
                lock = there.lock(key(scene), timeout=30)
                assert not await lock.acquire(blocking=False)

        async def after() -> None:
            async with (
                redis.asyncio.Redis(host=server.host, port=server.port) as there,
                there.lock(key(scene), timeout=30),
            ):
                assert await there.get(key(scene)) is not None

        async with locks.lock("x"):
            await _on_a_loop(scene, story)
        await _on_a_loop(scene, after)
        assert await locks.lock("x").acquire(timeout=0) is not None

    async def test_a_polling_waiter_of_theirs_gets_in(self, scene: Scene, client: Any) -> None:
        locks, lock = scene.connect(), theirs(client, scene)
        held = await locks.lock("x").acquire()
        crowd = [scene.spawn(lambda: _enter(locks)) for _ in range(2)]

        async def poll() -> bool:
            return bool(await _aside(scene, lambda: lock.acquire(blocking_timeout=15)))

        waiter = scene.spawn(poll)
        await scene.pause(0.05)
        await held.release()
        assert await waiter.result()
        lock.release()
        for each in crowd:
            await each.result()

    async def test_theirs_that_runs_out(self, scene: Scene, client: Any) -> None:
        lock = theirs(client, scene, timeout=2)
        assert lock.acquire()
        waiting = await _waiting(scene)
        lease = await waiting.result()
        assert lease.held
        with pytest.raises(LockNotOwnedError):
            lock.release()
        await lease.release()

    async def test_theirs_for_ever_is_broken_by_force(self, scene: Scene, client: Any) -> None:
        """`timeout=None` is their default: a client that died would keep it."""
        locks, lock = scene.connect(), theirs(client, scene, timeout=None)
        assert lock.acquire()
        waiting = await _waiting(scene)
        assert (await locks.info("x")).holders[0].ttl_left is None
        assert await locks.force_release("x")
        await (await waiting.result()).release()
        with pytest.raises(LockNotOwnedError):
            lock.release()

    async def test_our_release_wakes_our_own(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(redis_py, "POLL", 120.0)
        async with scene.connect().lock("x", ttl=60):
            waiting = await _waiting(scene)
        assert (await waiting.result()).held

    async def test_a_renewal_sets_the_ttl_anew(
        self, scene: Scene, client: Any, server: RedisServer
    ) -> None:
        """Where `extend` adds to it."""
        async with scene.connect().lock("x", ttl=20) as lease:
            await lease.renew()
            assert left(server, key(scene)) <= 20_000
        lock = theirs(client, scene, timeout=20)
        assert lock.acquire()
        assert lock.extend(20)
        assert left(server, key(scene)) > 20_000
        lock.release()

    async def test_a_hold_that_ran_out_is_not_taken_from_them(
        self, scene: Scene, client: Any
    ) -> None:
        port, mine, lock = scene.port(), scene.claim("x", ttl=scene.ttl), theirs(client, scene)
        await port.attempt(mine, 0.0)
        assert lock.acquire(blocking_timeout=15)
        assert await port.renew([mine]) == [Renewal.LOST]
        assert not await port.release(mine)
        assert not await port.release(mine, outcome_unknown=True)
        assert lock.owned()
        lock.release()

    async def test_an_attempt_whose_answer_was_lost(self, scene: Scene, client: Any) -> None:
        port, mine, lock = scene.port(), scene.claim("x"), theirs(client, scene)
        first = await port.attempt(mine, 0.0)
        assert isinstance(first, Granted)
        assert await port.attempt(mine, 0.0) == first
        assert await port.release(mine, outcome_unknown=True)
        assert isinstance(await port.attempt(mine, 0.0), Busy), "it came late (L3)"
        assert lock.acquire(blocking=False)
        lock.release()

    async def test_a_hold_deleted_by_hand_is_lost(self, scene: Scene, client: Any) -> None:
        lease = await scene.connect().lock("x", ttl=scene.safe_ttl).acquire()
        client.delete(key(scene))
        lock = theirs(client, scene)
        assert lock.acquire(blocking=False)
        assert await lease.lost.wait(20)
        with pytest.raises(LeaseLost):
            await lease.release()
        assert lock.owned()
        lock.release()

    async def test_all_of_them_count_together(
        self, scene: Scene, client: Any, server: RedisServer
    ) -> None:
        """What each adds is lost if two are inside at once."""
        rounds = 8
        server.ask("SET", "sum", 0)

        def add() -> None:
            client.set("sum", int(client.get("sum")) + 1)

        async def ours(locks: Any) -> None:
            for _ in range(rounds):
                async with locks.lock("x"):
                    await scene.pause(0.001)
                    add()

        def work() -> None:
            for _ in range(rounds):
                with theirs(client, scene, sleep=0.01):
                    add()

        async def other() -> None:
            await _aside(scene, work)

        pair = scene.connect(), scene.connect()
        crowd = [scene.spawn(lambda each=each: ours(each)) for each in pair]  # type: ignore[misc]
        crowd += [scene.spawn(other) for _ in range(2)]
        for each in crowd:
            await each.result()
        assert int(client.get("sum")) == 4 * rounds
        client.delete("sum")


class TestRefusing(_Layout):
    """What it cannot have is said."""

    async def test_what_a_string_has_no_room_for(self, scene: Scene) -> None:
        locks = scene.connect()
        with pytest.raises(Unsupported, match=r"redis\?layout=redis-py.*'shared'"):
            locks.rwlock("x")
        with pytest.raises(Unsupported, match="'permits'"):
            locks.semaphore("x", 3)
        with pytest.raises(Unsupported, match="'fair'"):
            locks.lock("x", fair=True)

    async def test_what_is_no_lock_is_an_error(self, scene: Scene, client: Any) -> None:
        client.hset(key(scene), "a", 1)
        with pytest.raises(BackendError, match="not a lock's"):
            await scene.connect().lock("x").acquire(blocking=False)
        client.delete(key(scene))


async def _enter(locks: Any) -> None:
    async with locks.lock("x"):
        pass


async def _waiting(scene: Scene) -> Any:
    """One of ours that waits."""
    locks = scene.connect()
    news = scene.news(locks)

    async def wait() -> Any:
        return await locks.lock("x").acquire()

    worker = scene.spawn(wait)
    await news.heard("waiting")
    return worker


async def _aside(scene: Scene, work: Any) -> Any:
    """Something that blocks, beside the loop if there is one."""
    return await asyncio.to_thread(work) if scene.colour.name == "asyncio" else work()


async def _on_a_loop(scene: Scene, story: Any) -> None:
    if scene.colour.name == "asyncio":
        await story()
    else:
        asyncio.run(story())
