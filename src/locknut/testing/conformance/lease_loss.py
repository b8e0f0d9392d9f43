"""Holds that end by themselves: expiry, loss and its notice, renewal, and max_hold."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from locknut.core.values import Capability, Granted, State
from locknut.errors import LeaseLost
from locknut.testing.conformance.colours import PATIENCE
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs

LONG = 5.0
"""A ttl that does not run out, however busy the machine is."""


class LeaseLoss(Part):
    """Expiry and loss, by the holder's own clock."""

    async def test_a_lease_runs_out(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        asked = scene.now()
        lease: Any = await locks.lock("x", ttl=scene.ttl, auto_renew=False).acquire()
        assert lease.state == "held"
        assert 0 < lease.remaining <= scene.ttl
        assert await lease.lost.wait(PATIENCE)
        assert scene.now() > asked + scene.ttl * 0.9, "lost before its time"
        assert lease.state is State.LOST
        assert lease.lost.is_set()
        assert lease.remaining == 0
        assert not lease.held
        with pytest.raises(LeaseLost) as caught:
            lease.check()
        assert (caught.value.key, caught.value.backend) == ("x", scene.backend)
        next_one = await other.lock("x").acquire(timeout=PATIENCE)
        assert next_one.fence > lease.fence

    async def test_the_longest_ttl_is_one(self, scene: Scene) -> None:
        """A server may take a large number for something else: for a date, say, that is past."""
        locks, other = scene.connect(), scene.connect()
        lease = await locks.lock("x", ttl=scene.limits[1], auto_renew=False).acquire()
        assert await other.lock("x").acquire(blocking=False) is None
        assert lease.held
        await lease.release()

    @needs(Capability.LEASE)
    async def test_the_shortest_ttl_is_one(self, scene: Scene) -> None:
        """Nor is a small one nothing, which may stand for no end at all."""
        if scene.limits[0] == scene.ttl:
            return  # the other tests have it
        port, locks = scene.port(), scene.connect()
        claim = scene.claim("x", ttl=scene.limits[0])
        assert isinstance(await port.attempt(claim, 0.0), Granted)
        assert await locks.lock("x").acquire(timeout=PATIENCE) is not None

    async def test_the_holder_knows_before_the_engine_lets_others_in(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x", ttl=scene.ttl, auto_renew=False).acquire()

        async def next_one() -> None:
            async with scene.connect().lock("x"):
                assert not lease.held

        await scene.spawn(next_one).result()

    async def test_releasing_a_lost_lease_says_so(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False)
        lease = await lock.acquire()
        assert await lease.lost.wait(PATIENCE)
        with pytest.raises(LeaseLost):
            await lock.release()
        with pytest.raises(LeaseLost):
            await lease.release()
        with pytest.raises(LeaseLost):
            await lease.renew()
        assert lease.state is State.LOST

    async def test_after_a_loss_the_same_caller_gets_a_new_hold(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False)
        lost = await lock.acquire()
        assert await lost.lost.wait(PATIENCE)
        again = await lock.acquire(timeout=PATIENCE)
        assert again.fence > lost.fence
        with pytest.raises(LeaseLost):
            await lost.release()
        assert again.held
        await again.release()

    async def test_leaving_with_a_lost_lease_raises(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False, on_lost="ignore")
        with pytest.raises(LeaseLost):
            async with lock as lease:
                assert await lease.lost.wait(PATIENCE)

    async def test_the_bodys_own_error_is_never_masked(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False, on_lost="ignore")
        with pytest.raises(ZeroDivisionError) as caught:
            async with lock as lease:
                assert await lease.lost.wait(PATIENCE)
                raise ZeroDivisionError
        assert "lost" in caught.value.__notes__[0]

    async def test_others_may_wait_for_the_loss(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x", ttl=scene.ttl, auto_renew=False).acquire()

        async def wait() -> Any:
            return await lease.lost.wait(PATIENCE)

        crowd = [scene.spawn(wait) for _ in range(3)]
        assert [await each.result() for each in crowd] == [True] * 3

    async def test_waiting_for_a_loss_ends_with_the_release(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x").acquire()
        waiting = scene.gate()

        async def wait() -> Any:
            waiting.open()
            return await lease.lost.wait()

        worker = scene.spawn(wait)
        assert await waiting.passed()
        assert not await lease.lost.wait(0.01)
        await lease.release()
        assert not await worker.result()

    async def test_callbacks_are_told_where_they_hold_nobody_up(self, scene: Scene) -> None:
        told: list[tuple[object, object]] = []
        early, late, of_lock = scene.gate(), scene.gate(), scene.gate()
        here = scene.colour.here()

        def note(gate: Any) -> Any:
            def call(lease: Any) -> None:
                told.append((lease.name, scene.colour.here()))
                gate.open()

            return call

        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False, on_lost=note(of_lock))
        lease = await lock.acquire()
        lease.on_lost(note(early))
        assert await early.passed()
        assert await of_lock.passed()
        lease.on_lost(note(late))
        assert await late.passed()
        assert [name for name, _ in told] == ["x"] * 3
        places = {place for _, place in told}
        if scene.colour.name == "blocking":
            assert here not in places  # a thread of their own, and not the keeper's (L12)
        else:
            assert places == {here}

    async def test_a_release_is_no_loss(self, scene: Scene) -> None:
        told: list[object] = []
        locks = scene.connect()
        lease = await locks.lock("x", ttl=scene.safe_ttl, on_lost=told.append).acquire()
        lease.on_lost(told.append)
        await lease.release()
        async with locks.lock("x", auto_renew=False, on_lost=told.append) as second:
            await second.lost.wait(scene.ttl / 2)
        assert not told

    async def test_renewed_over_several_ttls(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        lease = await locks.lock("x", ttl=scene.safe_ttl).acquire()
        assert not await lease.lost.wait(scene.safe_ttl * 1.7)
        assert lease.held
        assert 0 < lease.remaining <= scene.safe_ttl
        lease.check()
        assert await other.lock("x").acquire(blocking=False) is None
        await lease.release()

    async def test_renewing_by_hand(self, scene: Scene) -> None:
        ttl = LONG if scene.has(Capability.LEASE) else scene.safe_ttl
        lease = await scene.connect().lock("x", ttl=ttl, auto_renew=False).acquire()
        fence = lease.fence
        for _ in range(3):
            await scene.pause(0.3)
            before = lease.remaining
            await lease.renew()
            assert lease.remaining > before
        assert lease.fence == fence
        await lease.release()

    async def test_max_hold_ends_the_renewal_for_good(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        lock = locks.lock("x", ttl=scene.safe_ttl, max_hold=scene.safe_ttl * 1.2)
        lease = await lock.acquire()
        assert lease.remaining <= scene.safe_ttl * 1.2
        assert await lease.lost.wait(PATIENCE)
        assert lease.reason == "max_hold"
        with pytest.raises(LeaseLost):
            await lease.release()
        assert await other.lock("x").acquire(timeout=PATIENCE) is not None

    async def test_max_hold_without_a_ttl(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x", max_hold=0.1).acquire()
        assert await lease.lost.wait(PATIENCE)
        await scene.free(scene.connect(), "x")

    async def test_a_lost_lease_stays_lost(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x", ttl=scene.ttl, auto_renew=False).acquire()
        assert await lease.lost.wait(PATIENCE)
        for _ in range(3):
            with pytest.raises(LeaseLost):
                await lease.renew()
        assert lease.state is State.LOST

    async def test_another_lease_of_the_same_client_is_not_touched_by_a_loss(
        self, scene: Scene
    ) -> None:
        locks = scene.connect()
        kept = await locks.lock("kept", ttl=scene.safe_ttl).acquire()
        lost = await locks.lock("lost", ttl=scene.ttl, auto_renew=False).acquire()
        assert await lost.lost.wait(PATIENCE)
        assert kept.held
        await kept.release()


class LeaseLossOnALoop(Part):
    """What only asyncio has: the body is cancelled when its hold is lost."""

    colours = ("asyncio",)

    async def test_the_body_is_cancelled_as_by_a_timeout(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False)
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(LeaseLost) as caught:
            async with lock:
                await asyncio.sleep(PATIENCE)
                pytest.fail("went on after the loss")
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    async def test_the_body_of_a_lease_is_cancelled_too(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False)
        with pytest.raises(LeaseLost):
            async with await lock.acquire():
                await asyncio.sleep(PATIENCE)

    async def test_ignore_leaves_the_body_alone(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False, on_lost="ignore")
        went_on = False
        with pytest.raises(LeaseLost):
            async with lock as lease:
                assert await lease.lost.wait(PATIENCE)
                await asyncio.sleep(0)
                went_on = True
        assert went_on

    async def test_a_cancellation_from_outside_stays_one(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False)
        inside = asyncio.Event()

        async def body() -> None:
            async with lock:
                inside.set()
                try:
                    await asyncio.sleep(PATIENCE)
                finally:
                    await asyncio.sleep(0)

        task = asyncio.create_task(body())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await scene.free(scene.connect(), "x")

    async def test_cancelled_from_outside_and_lost_stays_cancelled(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False)
        inside = asyncio.Event()

        async def body() -> None:
            async with lock as lease:
                inside.set()
                try:
                    await asyncio.sleep(PATIENCE)
                finally:
                    with pytest.raises(asyncio.CancelledError):
                        await asyncio.sleep(PATIENCE)  # until the loss cancels us once more
                    assert not lease.held

        task = asyncio.create_task(body())
        await inside.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    async def test_a_body_that_ends_at_the_moment_of_the_loss(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False)
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(LeaseLost):
            async with lock as lease:
                threading.Event().wait(scene.ttl * 1.5)  # the loop is blocked: nobody was told
                assert not lease.held
        assert task.cancelling() == 0
        await asyncio.sleep(0.01)  # a late cancellation would arrive here

    async def test_a_callback_may_be_a_coroutine(self, scene: Scene) -> None:
        told = asyncio.Event()

        async def tell(lease: Any) -> None:
            await asyncio.sleep(0)
            assert not lease.held
            told.set()

        lock = scene.connect().lock("x", ttl=scene.ttl, auto_renew=False, on_lost=tell)
        await lock.acquire()
        async with asyncio.timeout(PATIENCE):
            await told.wait()
