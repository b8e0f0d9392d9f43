"""What barriers and latches promise, for every engine that has them and in both colours."""

from __future__ import annotations

from typing import Any

import pytest

from locknut import BrokenBarrier, ConfigurationError
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.uses.once_rules import forget

LONG = 60
"""Seconds for what does not happen in a test."""


async def come(barrier: Any, timeout: float = LONG) -> Any:
    """The place, or "broken"."""
    try:
        return await barrier.wait(timeout)
    except BrokenBarrier:
        return "broken"


async def here(scene: Scene, barrier: Any, many: int) -> None:
    """So many wait there."""

    async def look() -> bool:
        return bool(await barrier.waiting() == many)

    await scene.eventually(look, f"{many} never waited")


class BarrierRules(Part):
    """All pass, or nobody does."""

    async def test_all_pass_together_again_and_again(self, scene: Scene) -> None:
        hosts = [scene.connect() for _ in range(3)]
        barriers = [host.barrier("x", 3) for host in hosts]
        for _ in range(3):
            parties = [scene.spawn(lambda b=each: come(b)) for each in barriers[:2]]  # type: ignore[misc]
            await here(scene, barriers[2], 2)
            assert await come(barriers[2]) == 2, "it came last"
            assert sorted([await each.result() for each in parties]) == [0, 1]
        assert await barriers[0].waiting() == 0
        await forget(hosts[0])

    async def test_alone(self, scene: Scene) -> None:
        locks = scene.connect()
        assert [await locks.barrier("x", 1).wait() for _ in range(3)] == [0, 0, 0]
        await forget(locks)

    async def test_one_whose_timeout_expires_breaks_it_for_all(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        waits = scene.spawn(lambda: come(one.barrier("x", 3)))
        await here(scene, two.barrier("x", 3), 1)
        with pytest.raises(BrokenBarrier, match="timeout of a party expired"):
            await two.barrier("x", 3).wait(0.01)
        assert await waits.result() == "broken"
        assert await two.barrier("x", 3).waiting() == 0, "the next generation is whole"
        parties = [scene.spawn(lambda: come(one.barrier("x", 3))) for _ in range(3)]
        assert sorted([await each.result() for each in parties]) == [0, 1, 2]
        await forget(one)

    async def test_abort(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        await two.barrier("x", 2).abort()
        waits = scene.spawn(lambda: come(one.barrier("x", 2)))
        await here(scene, two.barrier("x", 2), 1)
        await two.barrier("x", 2).abort()
        assert await waits.result() == "broken"
        await forget(one)

    async def test_a_party_that_is_gone_does_not_count(self, scene: Scene) -> None:
        """Its permit went with it: the one who comes sees that, or the one who waits."""
        one, two = scene.connect(), scene.connect()
        waits = scene.spawn(lambda: come(one.barrier("x", 3)))
        await here(scene, two.barrier("x", 3), 1)
        assert await two.force_release("x@arrivals"), "as if it had run out"
        parties = [scene.spawn(lambda: come(two.barrier("x", 3))) for _ in range(3)]
        assert await waits.result() == "broken"
        assert sorted([await each.result() for each in parties]) == [0, 1, 2]
        await forget(one)

    async def test_an_engine_that_lost_everything(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        waits = scene.spawn(lambda: come(one.barrier("x", 2)))
        await here(scene, two.barrier("x", 2), 1)
        await two.force_release("x@barrier")
        assert await waits.result() == "broken"
        parties = [scene.spawn(lambda: come(each.barrier("x", 2))) for each in (one, two)]  # noqa: B023
        assert sorted([await each.result() for each in parties]) == [0, 1]
        await forget(one)

    async def test_the_number_of_parties_is_one(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        waits = scene.spawn(lambda: come(one.barrier("x", 2)))
        await here(scene, two.barrier("x", 2), 1)
        with pytest.raises(ConfigurationError, match="2 parties there, not 3"):
            await two.barrier("x", 3).wait(0)
        assert await come(two.barrier("x", 2)) == 1
        assert await waits.result() == 0
        await forget(one)


class LatchRules(Part):
    """It opens when all was counted down, and not before."""

    async def test_it_opens_at_zero(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        waits = scene.spawn(lambda: one.latch("x", 3).wait(LONG))
        latch = two.latch("x", 3)
        assert [await latch.left(), await latch.count_down(), await latch.count_down()] == [3, 2, 1]
        assert await latch.wait(0) is False
        assert await one.latch("x", 3).count_down() == 0
        assert await waits.result() is True
        assert [await latch.count_down(), await latch.left(), await latch.wait()] == [0, 0, True]
        await forget(one)

    async def test_many_count_at_once(self, scene: Scene) -> None:
        hosts = [scene.connect() for _ in range(4)]

        async def count(locks: Any) -> None:
            for _ in range(5):
                await locks.latch("x", 21).count_down()

        counts = [scene.spawn(lambda h=host: count(h)) for host in hosts]  # type: ignore[misc]
        for each in counts:
            await each.result()
        assert await hosts[0].latch("x", 21).left() == 1
        await forget(hosts[0])

    async def test_what_was_counted_stays_when_its_client_is_gone(self, scene: Scene) -> None:
        one, two = scene.connect(), scene.connect()
        await one.latch("x", 2).count_down()
        await one.close()
        assert await two.latch("x", 2).left() == 1
        await forget(two)

    async def test_reset(self, scene: Scene) -> None:
        latch = scene.connect().latch("x", 2)
        await latch.reset()
        for _ in range(2):
            assert await latch.count_down() == 1
            await latch.reset()
            assert await latch.left() == 2
        await forget(scene.connect())

    async def test_the_count_is_one(self, scene: Scene) -> None:
        locks = scene.connect()
        await locks.latch("x", 2).count_down()
        with pytest.raises(ConfigurationError, match="the count 2 there, not 3"):
            await locks.latch("x", 3).count_down()
        await forget(locks)
