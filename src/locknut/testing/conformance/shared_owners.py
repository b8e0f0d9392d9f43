"""Several threads, tasks or processes as one owner: `owner=`."""

from __future__ import annotations

from typing import Any

from locknut.core.values import Capability, Granted
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs


class SharedOwners(Part):
    """An explicit owner: the hold is a set of claims, each with its own expiry (L4)."""

    @needs(Capability.OWNERS)
    async def test_two_clients_hold_as_one_owner(self, scene: Scene) -> None:
        first, second = (scene.connect().lock("x", owner="order-7") for _ in range(2))
        assert first.owner == "order-7"
        other = scene.connect().lock("x", owner="order-8")
        plain = scene.connect().lock("x")

        async def ask(lock: Any) -> Any:
            return await lock.acquire(blocking=False)

        one = await first.acquire()
        two = await scene.spawn(lambda: ask(second)).result()
        assert one.fence == two.fence
        for stranger in (other, plain):
            assert await scene.spawn(lambda s=stranger: ask(s)).result() is None  # type: ignore[misc]
        await one.release()
        for stranger in (other, plain):
            assert await scene.spawn(lambda s=stranger: ask(s)).result() is None  # type: ignore[misc]
        assert two.held
        await two.release()
        assert await scene.spawn(lambda: ask(other)).result() is not None

    @needs(Capability.OWNERS)
    async def test_workers_of_one_client_as_one_owner(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", owner="me")

        async def enter() -> Any:
            async with lock as lease:
                return lease.fence

        async with lock as lease:
            assert await scene.spawn(enter).result() == lease.fence
            assert lease.held
        assert not await lock.locked()

    @needs(Capability.OWNERS, Capability.SHARED)
    async def test_readers_and_an_owner_keep_each_other_out(self, scene: Scene) -> None:
        owned, shared = scene.connect().lock("x", owner="a"), scene.connect().rwlock("x")

        async def enters(lock: Any) -> bool:
            lease = await lock.acquire(blocking=False)
            if lease is not None:
                await lease.release()
            return lease is not None

        async with owned:
            assert not await scene.spawn(lambda: enters(shared.read())).result()
        async with shared.read():
            assert not await scene.spawn(lambda: enters(owned)).result()
        assert await scene.spawn(lambda: enters(owned)).result()

    @needs(Capability.OWNERS)
    async def test_entering_again_counts(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", owner="me")
        async with lock as outer, lock as inner:
            assert inner.fence == outer.fence
        assert not await lock.locked()

    @needs(Capability.OWNERS)
    async def test_the_next_owner_gets_a_larger_fence(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.lock("x", owner="a") as first:
            pass
        async with locks.lock("x", owner="b") as second:
            pass
        assert second.fence > first.fence

    @needs(Capability.OWNERS)
    async def test_another_owner_waits_for_the_last_of_them(self, scene: Scene) -> None:
        first, second = scene.connect().lock("x", owner="a"), scene.connect().lock("x", owner="a")
        others = scene.connect()
        news = scene.news(others)
        order: list[str] = []

        async def wait() -> None:
            async with others.lock("x", owner="b"):
                order.append("b")

        async def join() -> Any:
            return await second.acquire()

        one = await first.acquire()
        two = await scene.spawn(join).result()
        waiter = scene.spawn(wait)
        await news.heard("waiting")
        await one.release()
        order.append("one")
        await two.release()
        await waiter.result()
        assert order == ["one", "b"]

    @needs(Capability.OWNERS, Capability.LEASE)
    async def test_a_crashed_co_owner_goes_away(self, scene: Scene) -> None:
        port = scene.port()
        crashed = scene.claim("x", owner="a", ttl=scene.ttl)
        assert isinstance(await port.attempt(crashed, 0.0), Granted)
        async with scene.connect().lock("x", owner="a"):
            pass
        assert await scene.connect().lock("x", owner="b").acquire(timeout=20) is not None

    @needs(Capability.OWNERS, Capability.LEASE)
    async def test_a_repeated_attempt_counts_once(self, scene: Scene) -> None:
        port = scene.port()
        claim = scene.claim("x", owner="a")
        first = await port.attempt(claim, 0.0)
        assert await port.attempt(claim, 0.0) == first
        assert await port.release(claim)
        async with scene.connect().lock("x", owner="b", timeout=0):
            pass
