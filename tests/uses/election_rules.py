"""What an election promises, for every engine and in both colours."""

from __future__ import annotations

from typing import Any

import pytest

from locknut import AcquireTimeout, Holder, LeaseLost
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part
from tests.uses.elections import lead, terms


class ElectionRules(Part):
    """One leader at a time."""

    async def test_one_leads_and_the_next_takes_over_at_once(self, scene: Scene) -> None:
        first, second = scene.connect(label="first"), scene.connect(label="second")
        leading, end = scene.gate(), scene.gate()
        fences: list[int] = []

        async def work(term: Any) -> str:
            fences.append(term.fence)
            leading.open()
            assert await end.passed()
            term.check()
            return "done"

        async def next_work(term: Any) -> str:
            fences.append(term.fence)
            return "done too"

        leader = scene.spawn(lambda: lead(first.election("x"), work))
        assert await leading.passed()
        with pytest.raises(AcquireTimeout):
            await lead(second.election("x"), next_work, timeout=0)
        standby = scene.spawn(lambda: lead(second.election("x"), next_work))
        observer = scene.connect()
        holder = await observer.election("x").leader()
        assert isinstance(holder, Holder)
        assert (holder.label, holder.fence) == ("first", fences[0])
        end.open()
        assert (await leader.result(), await standby.result()) == ("done", "done too")
        assert fences[0] < fences[1]
        assert await observer.election("x").leader() is None

    async def test_leading_ends_when_the_work_raises(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()

        async def work(_term: Any) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await lead(first.election("x"), work)
        lease = await second.lock("x").acquire(timeout=30)
        assert lease is not None
        await lease.release()

    async def test_a_loss_stops_the_work(self, scene: Scene) -> None:
        first, second, leading = scene.connect(), scene.connect(), scene.gate()

        async def work(term: Any) -> None:
            leading.open()
            await term.lost.wait(30)  # with asyncio it is cancelled here
            term.check()

        leader = scene.spawn(lambda: lead(first.election("x", ttl=scene.safe_ttl), work))
        assert await leading.passed()
        assert await second.force_release("x")
        with pytest.raises(LeaseLost):
            await leader.result()

    async def test_terms_go_on_after_a_loss(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()
        leading = [scene.gate(), scene.gate()]

        async def campaign() -> list[int]:
            fences: list[int] = []
            async for term in terms(first.election("x", ttl=scene.safe_ttl)):
                async with term:
                    leading[len(fences)].open()
                    fences.append(term.fence)
                    if len(fences) == 1:
                        await term.lost.wait(30)
                        term.check()
                if len(fences) == 2:
                    return fences
            return fences

        leader = scene.spawn(campaign)
        assert await leading[0].passed()
        assert await second.force_release("x")
        assert await leading[1].passed()
        fences = await leader.result()
        assert fences[0] < fences[1]
        await scene.free(second, "x")

    async def test_a_body_that_raises_ends_the_loop_and_the_term(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()

        async def campaign() -> None:
            async for term in terms(first.election("x")):
                async with term:
                    assert term.leads
                    raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await campaign()
        await scene.free(second, "x")

    async def test_terms_end_when_a_wait_takes_too_long(self, scene: Scene) -> None:
        first, second = scene.connect(), scene.connect()
        async with first.lock("x"):
            assert [term async for term in terms(second.election("x"), timeout=0.05)] == []

    async def test_observers_are_told_of_every_change(self, scene: Scene) -> None:
        first, observer = scene.connect(label="first"), scene.connect()
        seen: list[str | None] = []
        gates = [scene.gate() for _ in range(3)]

        def changed(leader: Holder | None) -> None:
            seen.append(None if leader is None else leader.label)
            gates[len(seen) - 1].open()

        stop = observer.election("x").on_change(changed, every=0.01)
        assert await gates[0].passed()
        lease = await first.lock("x").acquire()
        assert await gates[1].passed()
        await lease.release()
        assert await gates[2].passed()
        stop()
        assert seen == [None, "first", None]
