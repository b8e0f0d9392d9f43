"""`info` and `list` show holders and waiters; `force_release` breaks a hold."""

from __future__ import annotations

import time
from typing import Any

import pytest

from locknut.core.values import Capability, State
from locknut.errors import LeaseLost, StaleFence
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part


class Inspection(Part):
    """`info`, `list`, `force_release`."""

    async def test_a_free_name_has_nobody(self, scene: Scene) -> None:
        locks = scene.connect()
        info = await locks.info("x")
        assert info.name == "x"
        assert not info.locked
        assert info.holders == info.waiters == ()
        assert await locks.list() == []

    async def test_the_holder_is_shown_and_its_secret_is_not(self, scene: Scene) -> None:
        locks, other = scene.connect(label="nightly"), scene.connect()
        owner = "order-7" if scene.has(Capability.OWNERS) else None
        async with locks.lock("x", owner=owner) as lease:
            info = await other.info("x")
            (holder,) = info.holders
            assert info.locked
            assert holder.label == "nightly"
            assert holder.owner == owner
            assert holder.fence == lease.fence
            assert holder.who
            assert holder.since is not None
            assert abs(holder.since - time.time()) < 120
            assert "nightly" in str(holder)
            claim = lease._hold.claim
            assert claim.id not in repr(await other.list())
            assert claim.id not in repr(lease)

    async def test_waiters_are_listed_in_order(self, scene: Scene) -> None:
        holder, first, second = scene.connect(), scene.connect(label="1"), scene.connect(label="2")
        listed = scene.has(Capability.WAITERS)

        async def wait(locks: Any) -> None:
            async with locks.lock("x"):
                pass

        async def labels() -> list[str]:
            return [each.label for each in (await holder.info("x")).waiters]

        async with holder.lock("x"):
            crowd = []
            for number, locks in enumerate((first, second), 1):
                news = scene.news(locks)
                crowd.append(scene.spawn(lambda each=locks: wait(each)))  # type: ignore[misc]
                await news.heard("waiting")

                async def stands(number: int = number) -> bool:
                    return len(await labels()) == number

                if listed:  # its place may come a little after the news, and must come first
                    await scene.eventually(stands)

            async def in_order() -> bool:
                """An engine may learn a little late what they are called."""
                return await labels() in ([["1", "2"]] if listed else [["1", "2"], []])

            await scene.eventually(in_order)
        for each in crowd:
            await each.result()

    async def test_breaking_tells_the_holder_and_frees(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        assert await other.force_release("x")
        assert await lease.lost.wait(20)
        assert lease.state is State.LOST
        with pytest.raises(LeaseLost):
            await lease.release()
        assert await other.lock("x").acquire(timeout=20) is not None

    async def test_breaking_compares_the_fence(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        async with locks.lock("x") as old:
            pass
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        with pytest.raises(StaleFence) as caught:
            await other.force_release("x", fence=old.fence)
        assert caught.value.key == "x"
        assert lease.held
        assert await other.force_release("x", fence=lease.fence)
        assert await lease.lost.wait(20)

    async def test_breaking_what_nobody_holds(self, scene: Scene) -> None:
        locks = scene.connect()
        assert not await locks.force_release("x")
        assert not await locks.force_release("x", fence=32)

    async def test_a_break_lets_the_next_one_in(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        news = scene.news(other)
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()

        async def wait() -> Any:
            async with other.lock("x") as mine:
                return mine.fence

        waiter = scene.spawn(wait)
        await news.heard("waiting")
        assert await scene.connect().force_release("x")
        assert await waiter.result() > lease.fence

    async def test_the_holder_is_told_who_broke_its_lock_and_why(self, scene: Scene) -> None:
        """Even if the next holder has the lock already; that holder hears nothing of it."""
        if not scene.passes_notes:
            pytest.skip(f"the {scene.backend} engine does not declare 'passes_notes'")
        locks, other, admin = scene.connect(), scene.connect(), scene.connect(label="an admin")
        told, news, seen = scene.news(locks), scene.news(other), scene.gate()
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()

        async def wait() -> None:
            async with other.lock("x", ttl=scene.safe_ttl) as mine:
                assert await seen.passed()
                assert mine.held

        waiter = scene.spawn(wait)
        await news.heard("waiting")
        assert await admin.force_release("x", fence=lease.fence, reason="stuck\nsince noon")
        assert await lease.lost.wait(20)
        seen.open()
        await waiter.result()
        assert lease.reason == "broken: stuck since noon (by an admin)"
        assert (await told.heard("lost")).reason == lease.reason
        with pytest.raises(LeaseLost, match=r"broken: stuck since noon \(by an admin\)"):
            lease.check()

    async def test_locked_does_not_count_the_asker_out(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        assert not await lock.locked()
        async with lock:
            assert await lock.locked()
            assert lock.held
        assert not await lock.locked()

    async def test_reprs_say_what_they_are(self, scene: Scene) -> None:
        locks = scene.connect()
        lock = locks.lock("x")
        assert "'x'" in repr(lock)
        assert "not held" in repr(lock)
        async with lock as lease:
            assert "not held" not in repr(lock)
            assert str(lease.fence) in repr(lease)
            assert "held" in repr(lease)
        assert "released" in repr(lease)
        assert scene.namespace in repr(locks)
        assert locks.place in repr(locks)
        assert "'a'" in repr(locks.all("a", "b"))

    async def test_reprs_of_what_is_held(self, scene: Scene) -> None:
        locks = scene.connect()
        async with locks.all("a", "b") as leases:
            for lease in leases:
                assert f"{lease.name!r} held, fence {lease.fence}" in repr(leases)
        assert repr(leases).count("released") == 2
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        assert repr(lease.lost) == f"<Lost of 'x' on {scene.backend}: not set>"
        holder = repr((await locks.info("x")).holders[0])
        assert f"fence={lease.fence}, " in holder
        assert "raw" not in holder
        assert "step" not in holder
        await scene.connect().force_release("x")
        assert await lease.lost.wait(20)
        assert repr(lease.lost) == f"<Lost of 'x' on {scene.backend}: set>"
