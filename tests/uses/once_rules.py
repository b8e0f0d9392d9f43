"""What `once` promises, for every engine and in both colours."""

from __future__ import annotations

from typing import Any

import pytest

from locknut import Event, LeaseLost, State
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.uses.clock_on_the_wall import NOON, WallClock

QUARTER = 900.0


async def forget(locks: Any) -> None:
    """Break what is remembered: the suite wants an empty engine in the end."""
    for info in await locks.list():
        await locks.force_release(info.name)


async def run(locks: Any, name: str = "job", **options: Any) -> bool:
    """Whether a start at this moment is let in."""
    async with locks.once(name, **{"per": "15m", **options}) as lease:
        return lease is not None


async def fail(once: Any) -> None:
    """Begin a run that fails."""
    async with once as lease:
        assert lease is not None
        raise ZeroDivisionError


class OnceRules(Part):
    """One run for each slot."""

    @pytest.fixture(autouse=True)
    def wall(self, monkeypatch: pytest.MonkeyPatch) -> WallClock:
        return WallClock(monkeypatch)

    async def test_of_many_hosts_one_runs_a_slot(self, scene: Scene, wall: WallClock) -> None:
        hosts = [scene.connect(label=f"host {number}") for number in range(4)]
        news = [scene.news(host) for host in hosts]
        starts = [scene.spawn(lambda host=host: run(host)) for host in hosts]  # type: ignore[misc]
        ran = [await start.result() for start in starts]
        assert sum(ran) == 1
        told: list[Event] = [event for each in news for event in each.events]
        skips = [event for event in told if event.kind == "skipped"]
        assert [event.name for event in skips] == ["job"] * 3
        assert all("slot 2027-01-15T08:00:00Z" in event.reason for event in skips)
        assert not await run(hosts[0])
        wall.shows += QUARTER
        assert await run(hosts[0])
        assert not await run(hosts[1])
        await forget(hosts[0])

    async def test_hosts_whose_clocks_differ_mean_the_same_slot(
        self, scene: Scene, wall: WallClock
    ) -> None:
        slow, quick = scene.connect(), scene.connect()
        wall.shows = NOON - 20  # its timer fired early, or its clock was set back
        assert await run(slow)
        wall.shows = NOON + 20
        assert not await run(quick)
        wall.shows = NOON + QUARTER - 29
        assert await run(quick)
        wall.shows = NOON + QUARTER + 29
        assert not await run(slow)
        await forget(slow)

    async def test_it_is_the_scheduled_time_that_counts(
        self, scene: Scene, wall: WallClock
    ) -> None:
        host, late = scene.connect(), scene.connect()
        assert await run(host, at=NOON)
        wall.shows = NOON + QUARTER - 100  # the message was long on its way
        assert not await run(late, at=NOON)
        wall.shows = NOON + QUARTER + 100
        assert not await run(late, at=NOON), "it is remembered for longer than the slot lasts"
        assert await run(late, at=NOON + QUARTER)
        await forget(host)

    async def test_a_host_that_was_suspended_is_too_late(
        self, scene: Scene, wall: WallClock
    ) -> None:
        host, news = (locks := scene.connect()), scene.news(locks)
        wall.shows = NOON + 2 * QUARTER
        assert not await run(host, at=NOON), "nobody has run it, and nobody will any more"
        assert "too late" in (await news.heard("skipped")).reason
        # It slept after it had named its slot, and wakes when that is no longer remembered.
        wall.will_show(NOON, NOON, NOON + 3 * QUARTER)
        assert not await run(host)
        assert not (await host.list()), "nothing is left of it"
        wall.shows = NOON + QUARTER
        assert await run(host), "the next slot is not its affair"
        await forget(host)

    async def test_a_failed_run_is_repeated_only_if_asked(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()
        for retry in (False, True):
            with pytest.raises(ZeroDivisionError):
                await fail(first.once(f"retry {retry}", per="15m", retry=retry))
            async with second.once(f"retry {retry}", per="15m", retry=retry) as lease:
                assert (lease is not None) is retry
        async with first.once("retry True", per="15m", retry=True) as lease:
            assert lease is None, "the second try has done it"
        await forget(first)

    async def test_while_it_is_to_be_repeated_nobody_else_runs_it(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()
        async with first.once("job", per="15m", retry=True) as lease:
            assert lease is not None
            assert not await run(second, retry=True)
            assert not await run(second)
            assert not await run(first, retry=True), "not even the same thread or task"
        assert not await run(second, retry=True)
        await forget(first)

    async def test_two_runs_never_overlap(self, scene: Scene, wall: WallClock) -> None:
        first, second = scene.connect(label="first"), scene.connect()
        news = scene.news(second)
        async with first.once("job", per="15m") as lease:
            wall.shows += QUARTER
            assert not await run(second)
            reason = (await news.heard("skipped")).reason
            assert "another slot" in reason
            assert "first" in reason
        assert lease is not None
        async with second.once("job", per="15m") as later:
            assert later is not None, "the slot was left alone, it can still be run"
            assert later.fence > lease.fence
        await forget(first)

    async def test_a_run_that_loses_its_lock_is_told(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()
        for retry in (False, True):
            lost = scene.gate()
            name = f"job {retry}"
            once = first.once(name, per="15m", retry=retry, ttl=scene.safe_ttl)

            async def work(once: Any = once, lost: Any = lost) -> Any:
                lease = await once.acquire()
                lost.open()
                assert await lease.lost.wait(30)
                with pytest.raises(LeaseLost):
                    await once.release(done=False)
                return lease.state

            worker = scene.spawn(work)
            assert await lost.passed()
            assert await second.force_release(name)
            assert await worker.result() is State.LOST
            assert await run(second, name, retry=retry) is retry
        await forget(second)

    async def test_a_slot_can_be_given_back_by_hand(self, scene: Scene) -> None:
        locks = scene.connect()
        once = locks.once("job", per="15m", retry=True)
        outside = once.scheduled
        assert await once.acquire() is not None
        assert (outside, once.scheduled.timestamp()) == (None, NOON)
        await once.release(done=False)
        assert once.scheduled is None
        assert await once.acquire() is not None
        await once.release()
        assert await once.acquire() is None
        await forget(locks)

    async def test_an_engine_that_forgets_lets_a_slot_be_run_again(self, scene: Scene) -> None:
        """The documentation says so: what is remembered is in the engine, and nowhere else."""
        locks = scene.connect()
        assert await run(locks)
        await forget(locks)
        assert await run(locks)
        await forget(locks)
