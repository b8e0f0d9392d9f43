"""Several locks at once: all or nothing, in one order, and never a deadlock."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.errors import AcquireTimeout, ConfigurationError, DeadlockDetected, LeaseLost
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part


class LockGroups(Part):
    """`all` and `all_of`."""

    async def test_all_are_held_and_all_are_released(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        async with locks.all("c", "a", "b") as leases:
            assert leases.held
            assert leases.remaining > 0
            leases.check()
            assert list(leases.fences) == ["a", "b", "c"]
            assert [lease.name for lease in leases] == ["a", "b", "c"]
            for name in "abc":
                assert await other.lock(name).locked()
        assert not await other.list()

    async def test_fences_are_those_of_the_single_locks(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.lock("a") as before:
            pass
        async with locks.all("a", "b") as leases:
            assert leases.fences["a"] > before.fence
            fences = dict(leases.fences)
        async with locks.lock("a") as after:
            assert after.fence > fences["a"]

    async def test_nothing_is_kept_when_one_times_out(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        async with scene.stranger("b"):
            assert await locks.all("a", "b", "c").acquire(timeout=0.02) is None
            assert await locks.all("a", "b", "c").acquire(blocking=False) is None
            with pytest.raises(AcquireTimeout) as caught:
                async with locks.all("a", "b", timeout=0):
                    pytest.fail("the body ran without the locks")
            assert "a" in str(caught.value.key)
            assert [each.name for each in await other.list()] == ["b"]
        assert await locks.all("a", "b", "c").acquire(blocking=False) is not None

    async def test_two_callers_in_opposite_orders_never_deadlock(self, scene: Scene) -> None:
        clients = [scene.connect() for _ in range(2)]
        inside: list[int] = []

        async def work(number: int) -> None:
            names = ("a", "b", "c") if number % 2 else ("c", "b", "a")
            for _ in range(5):
                async with clients[number % 2].all(*names):
                    inside.append(number)
                    await scene.pause(0)
                    assert inside == [number]
                    inside.clear()

        crowd = [scene.spawn(lambda n=n: work(n)) for n in range(6)]  # type: ignore[misc]
        for each in crowd:
            await each.result()

    async def test_holding_one_of_them_already_is_refused(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.lock("b"):
            with pytest.raises(DeadlockDetected):
                await locks.all("a", "b").acquire(blocking=False)
            async with locks.all("c", "d"):  # nested plain locks stay allowed
                pass
            async with locks.lock("a"):
                pass
        async with locks.all("a", "b"):
            pass

    async def test_one_that_sorts_before_another_all_is_refused(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.all("b", "c"):
            with pytest.raises(DeadlockDetected):
                await locks.all("a", "d").acquire(blocking=False)
            async with locks.all("d", "e"):
                pass
            async with locks.lock("a"):
                pass
        async with locks.all("a", "d"):
            pass

    async def test_the_memory_of_an_all_ends_with_it(self, scene: Scene) -> None:
        locks = scene.connect()
        leases = await locks.all("x", "y").acquire()
        await leases.release()
        async with locks.all("a", "b"):
            pass

    async def test_naming_one_twice_or_none_is_an_error(self, scene: Scene) -> None:
        locks = scene.connect()
        with pytest.raises(ConfigurationError, match="twice"):
            locks.all("a", "a")
        with pytest.raises(ConfigurationError, match="at least one"):
            locks.all()

    async def test_all_of_takes_locks_of_several_clients(self, scene: Scene) -> None:
        first = scene.connect(id="first")
        second = scene.connect(id="second", namespace=f"{scene.namespace}-2")
        both = scene.colour.all_of(second.lock("a"), first.lock("b"), timeout=1)
        async with both as leases:
            assert set(leases.fences) == {"a", "b"}
            assert await second.lock("a").locked()
            assert await first.lock("b").locked()
        assert not await second.list()
        assert not await first.list()

    async def test_all_of_refuses_what_is_no_lock(self, scene: Scene) -> None:
        with pytest.raises(ConfigurationError, match="locks"):
            scene.colour.all_of("a", "b")

    async def test_validity_is_the_smallest(self, scene: Scene) -> None:
        locks = scene.connect()
        pair = scene.colour.all_of(
            locks.lock("a", ttl=scene.safe_ttl, auto_renew=False), locks.lock("b")
        )
        leases = await pair.acquire()
        assert leases.remaining <= scene.safe_ttl
        first, second = leases
        assert await first.lost.wait(20)
        assert not leases.held
        with pytest.raises(LeaseLost):
            leases.check()
        with pytest.raises(LeaseLost):
            await leases.release()
        assert not second.held

    async def test_a_grant_that_ran_out_while_the_last_was_waited_for(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        pair = scene.colour.all_of(
            locks.lock("a", ttl=scene.ttl, auto_renew=False), locks.lock("b")
        )

        async def take() -> Any:
            return await pair.acquire(timeout=20)

        async with scene.stranger("b"):
            waiter = scene.spawn(take)
            await news.heard("lost")
        with pytest.raises(LeaseLost):
            await waiter.result()
        await scene.free(scene.connect(), "b")

    async def test_a_caller_that_lost_them_does_not_release_the_next_holds(
        self, scene: Scene
    ) -> None:
        locks = scene.connect()
        pair = locks.all("a", "b", ttl=scene.safe_ttl, auto_renew=False)
        over, inside = scene.gate(), scene.gate()

        async def next_one() -> None:
            async with locks.all("a", "b"):
                inside.open()
                assert await over.passed()

        async def lose() -> None:
            leases = await pair.acquire()
            for lease in leases:
                assert await lease.lost.wait(20)
            worker = scene.spawn(next_one)
            assert await inside.passed()
            with pytest.raises(LeaseLost):
                await leases.release()
            assert await locks.lock("a").acquire(blocking=False) is None
            over.open()
            await worker.result()

        await scene.spawn(lose).result()

    async def test_together_is_shared_between_workers(self, scene: Scene) -> None:
        pair = scene.connect().all("a", "b")
        fences: list[int] = []

        async def work() -> None:
            for _ in range(4):
                async with pair as leases:
                    fences.append(leases.fences["a"])
                    await scene.pause(0)
                    assert leases.held

        crowd = [scene.spawn(work) for _ in range(4)]
        for each in crowd:
            await each.result()
        assert fences == sorted(set(fences))
