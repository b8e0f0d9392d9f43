"""Semaphores: as many holders as permits, each with a lease of its own."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.core.values import Capability, Granted, Mode
from locknut.errors import AcquireTimeout, NotHeld
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs

PERMITS = Capability.PERMITS


class Semaphores(Part):
    """Semaphores."""

    @needs(PERMITS)
    async def test_never_more_than_its_permits(self, scene: Scene) -> None:
        clients = [scene.connect() for _ in range(2)]
        inside: list[int] = []
        most: list[int] = []
        fences: list[int] = []

        async def work(number: int) -> None:
            semaphore = clients[number % 2].semaphore("x", 3)
            for _ in range(6):
                async with semaphore as lease:
                    inside.append(number)
                    most.append(len(inside))
                    fences.append(lease.fence)
                    await scene.pause(0)
                    inside.remove(number)

        crowd = [scene.spawn(lambda n=n: work(n)) for n in range(8)]  # type: ignore[misc]
        for each in crowd:
            await each.result()
        assert max(most) <= 3
        assert len(set(fences)) == len(fences) == 48

    @needs(PERMITS)
    async def test_each_permit_is_a_lease_of_its_own(self, scene: Scene) -> None:
        semaphore = scene.connect().semaphore("x", 2)
        assert semaphore.permits == 2
        first, second = await semaphore.acquire(), await semaphore.acquire()
        assert first.mode is second.mode is Mode.PERMIT
        assert first.fence != second.fence
        assert await semaphore.acquire(blocking=False) is None
        await first.release()
        assert not first.held
        assert second.held
        third = await semaphore.acquire(blocking=False)
        assert third.held
        await semaphore.release()
        await semaphore.release()
        with pytest.raises(NotHeld):
            await semaphore.release()

    @needs(PERMITS)
    async def test_with_waits_raises_and_releases(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.semaphore("x", 1):
            with pytest.raises(AcquireTimeout):
                async with locks.semaphore("x", 1, timeout=0.02):
                    pytest.fail("the body ran without a permit")
        assert await locks.semaphore("x", 1).acquire(blocking=False) is not None

    @needs(PERMITS)
    async def test_a_release_lets_one_waiter_in(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        semaphore = locks.semaphore("x", 2)
        held = [await semaphore.acquire(), await semaphore.acquire()]
        done = scene.gate()

        async def wait() -> None:
            async with semaphore:
                assert await done.passed()

        crowd = [scene.spawn(wait) for _ in range(2)]
        await news.heard("waiting", 2)
        await held[0].release()
        await news.heard("granted", 3)
        assert news.kinds().count("granted") == 3
        await held[1].release()
        await news.heard("granted", 4)
        done.open()
        for each in crowd:
            await each.result()

    @needs(PERMITS)
    async def test_each_client_is_judged_by_its_own_limit(self, scene: Scene) -> None:
        small, large = scene.connect().semaphore("x", 1), scene.connect().semaphore("x", 3)
        first = await small.acquire(blocking=False)
        assert await small.acquire(blocking=False) is None
        second = await large.acquire(blocking=False)
        third = await large.acquire(blocking=False)
        assert await large.acquire(blocking=False) is None
        await first.release()
        assert await small.acquire(blocking=False) is None
        assert await large.acquire(blocking=False) is not None
        assert second.held
        assert third.held

    @needs(PERMITS)
    async def test_a_lock_of_the_same_name_is_something_else(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        async with locks.semaphore("x", 1), other.lock("x", timeout=0):
            assert await other.semaphore("x", 1).acquire(blocking=False) is None
            assert await locks.lock("x").acquire(blocking=False) is None

    @needs(PERMITS, Capability.LEASE)
    async def test_a_dead_holder_gives_its_permit_back(self, scene: Scene) -> None:
        port = scene.port()
        for _ in range(2):
            claim = scene.claim("x", mode=Mode.PERMIT, permits=2, ttl=scene.safe_ttl)
            assert isinstance(await port.attempt(claim, 0.0), Granted)
        semaphore = scene.connect().semaphore("x", 2)
        assert await semaphore.acquire(blocking=False) is None
        assert await semaphore.acquire(timeout=20) is not None

    @needs(PERMITS, Capability.FAIR)
    async def test_fair_permits_are_first_come_first_served(self, scene: Scene) -> None:
        clients = [scene.connect() for _ in range(4)]
        order: list[int] = []

        async def wait(number: int) -> None:
            async with clients[number].semaphore("x", 1, fair=True):
                order.append(number)

        async with scene.connect().semaphore("x", 1, fair=True):
            crowd = []
            for number, locks in enumerate(clients):
                news = scene.news(locks)
                crowd.append(scene.spawn(lambda n=number: wait(n)))  # type: ignore[misc]
                await news.heard("waiting")
        for each in crowd:
            await each.result()
        assert order == [0, 1, 2, 3]

    @needs(PERMITS)
    async def test_another_worker_may_release_a_permit(self, scene: Scene) -> None:
        semaphore = scene.connect().semaphore("x", 1)
        lease: Any = await semaphore.acquire()
        await scene.spawn(lease.release).result()
        assert await semaphore.acquire(blocking=False) is not None

    @needs(PERMITS)
    async def test_a_permit_can_be_lost(self, scene: Scene) -> None:
        semaphore = scene.connect().semaphore("x", 1, ttl=scene.ttl, auto_renew=False)
        lease = await semaphore.acquire()
        assert await lease.lost.wait(20)
        assert await scene.connect().semaphore("x", 1).acquire(timeout=20) is not None

    @needs(PERMITS)
    async def test_info_tells_the_limit(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.semaphore("x", 5):
            info = await locks.info("x")
            assert info.permits == 5
            assert len(info.holders) == 1
