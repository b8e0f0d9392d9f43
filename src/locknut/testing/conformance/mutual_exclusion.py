"""One holder at a time, re-entry, whose release counts, and fences that only grow."""

from __future__ import annotations

import pytest

from locknut.core.values import Capability, State
from locknut.errors import NotHeld
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs

CROWD = 8
ROUNDS = 12


class MutualExclusion(Part):
    """The lock as a lock."""

    async def test_one_at_a_time_among_many_and_fences_grow(self, scene: Scene) -> None:
        clients = [scene.connect() for _ in range(2)]
        inside: list[int] = []
        fences: list[int] = []

        async def work(locks: object = None, number: int = 0) -> None:
            lock = locks.lock("x")  # type: ignore[attr-defined]
            for _ in range(ROUNDS):
                async with lock as lease:
                    inside.append(number)
                    await scene.pause(0)
                    assert inside == [number]
                    fences.append(lease.fence)
                    inside.clear()

        crowd = [
            scene.spawn(lambda n=n: work(clients[n % 2], n))  # type: ignore[misc]
            for n in range(CROWD)
        ]
        for worker in crowd:
            await worker.result()
        assert len(fences) == CROWD * ROUNDS
        assert fences == sorted(set(fences))

    async def test_another_client_is_refused_until_the_release(self, scene: Scene) -> None:
        first, second = scene.connect().lock("x"), scene.connect().lock("x")
        lease = await first.acquire()

        async def ask() -> object:
            return await second.acquire(blocking=False)

        assert await scene.spawn(ask).result() is None
        assert await second.locked()
        await lease.release()
        assert await scene.spawn(ask).result() is not None

    async def test_another_worker_does_not_enter_again(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")

        async def ask() -> object:
            return await lock.acquire(blocking=False)

        async with lock:
            assert await scene.spawn(ask).result() is None

    async def test_re_entry_keeps_the_fence_and_counts(self, scene: Scene) -> None:
        locks = scene.connect()
        lock = locks.lock("x")
        outer = await lock.acquire()
        inner = await locks.lock("x").acquire(timeout=0)
        assert inner.fence == outer.fence
        await lock.release()
        assert outer.held
        assert lock.held
        assert await scene.connect().lock("x").locked()
        await lock.release()
        assert not lock.held
        assert not await lock.locked()

    async def test_with_inside_with(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        async with lock as outer:
            async with lock as inner:
                assert inner.fence == outer.fence
            assert outer.held
            outer.check()
        assert not await lock.locked()

    @needs(Capability.FENCING)
    async def test_fences_grow_from_client_to_client(self, scene: Scene) -> None:
        clients = [scene.connect() for _ in range(3)]
        fences = []
        for turn in range(9):
            async with clients[turn % 3].lock("x") as lease:
                fences.append(lease.fence)
        assert fences == sorted(set(fences))
        assert fences[0] > 0
        assert fences[-1] < 2**53  # exact in Lua, JSON and a double (S10)

    async def test_releasing_what_is_not_held_raises_not_held(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        with pytest.raises(NotHeld) as caught:
            await lock.release()
        assert isinstance(caught.value, RuntimeError)
        assert (caught.value.key, caught.value.backend) == ("x", scene.backend)

    async def test_releasing_once_too_often_raises_not_held(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        lease = await lock.acquire()
        await lock.release()
        with pytest.raises(NotHeld):
            await lock.release()
        with pytest.raises(NotHeld):
            await lease.release()

    async def test_another_worker_cannot_release_through_the_lock(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")

        async def release() -> None:
            await lock.release()

        async with lock as lease:
            with pytest.raises(NotHeld):
                await scene.spawn(release).result()
            assert lease.held

    async def test_another_client_cannot_release(self, scene: Scene) -> None:
        stranger = scene.connect().lock("x")
        async with scene.connect().lock("x") as lease:
            with pytest.raises(NotHeld):
                await scene.spawn(stranger.release).result()
            assert lease.held
            assert await stranger.locked()

    async def test_another_worker_may_release_through_the_lease(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        lease = await lock.acquire()
        await scene.spawn(lease.release).result()
        assert not lease.held
        assert not lock.held
        with pytest.raises(NotHeld):
            await lock.release()
        again = await lock.acquire(timeout=0)
        assert again.fence != lease.fence
        await again.release()

    async def test_a_released_lease_is_over(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x").acquire()
        await lease.release()
        assert lease.state is State.RELEASED
        assert lease.remaining == 0
        assert not await lease.lost.wait(timeout=0)
        assert not lease.lost.is_set()
        with pytest.raises(NotHeld):
            lease.check()
        with pytest.raises(NotHeld):
            await lease.renew()

    async def test_an_old_lease_does_not_release_the_next_hold(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        old = await lock.acquire()
        await old.release()
        new = await lock.acquire()
        with pytest.raises(NotHeld):
            await old.release()
        assert new.held
        assert await lock.locked()
        await new.release()

    async def test_the_body_is_released_after_an_error(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        with pytest.raises(ZeroDivisionError):
            async with lock:
                raise ZeroDivisionError
        assert not await lock.locked()

    async def test_a_lease_is_a_context_too(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        async with await lock.acquire() as lease:
            assert lease.held
            assert lease
        assert not await lock.locked()
