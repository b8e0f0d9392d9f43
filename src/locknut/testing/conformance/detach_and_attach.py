"""A hold that goes on elsewhere: detach to a text, attach from it."""

from __future__ import annotations

from typing import Any

import pytest

from locknut.core.values import Capability, Mode, State
from locknut.errors import ConfigurationError, LeaseLost, NotHeld
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs


class DetachAndAttach(Part):
    """`detach` and `attach`."""

    @needs(Capability.DETACHING)
    async def test_the_hold_goes_on_under_the_same_fence(self, scene: Scene) -> None:
        web, worker = scene.connect(), scene.connect()
        lease = await web.lock("x").acquire()
        text = await lease.detach()
        assert isinstance(text, str)
        assert lease.state is State.DETACHED
        with pytest.raises(NotHeld):
            await lease.release()
        assert await web.lock("x").acquire(blocking=False) is None
        attached = await worker.attach(text)
        assert attached.held
        assert attached.name == "x"
        assert attached.fence == lease.fence
        await attached.renew()
        assert await web.lock("x").acquire(blocking=False) is None
        await attached.release()
        assert await web.lock("x").acquire(timeout=0) is not None

    @needs(Capability.DETACHING)
    async def test_only_the_first_of_two_attaches(self, scene: Scene) -> None:
        web = scene.connect()
        workers = [scene.connect() for _ in range(4)]
        text = await (await web.lock("x").acquire()).detach()

        async def attach(locks: Any) -> Any:
            try:
                return await locks.attach(text)
            except LeaseLost:
                return None

        crowd = [scene.spawn(lambda each=each: attach(each)) for each in workers]  # type: ignore[misc]
        leases = [await each.result() for each in crowd]
        assert sum(lease is not None for lease in leases) == 1
        with pytest.raises(LeaseLost):
            await workers[0].attach(text)

    @needs(Capability.DETACHING)
    async def test_attaching_after_the_release_fails(self, scene: Scene) -> None:
        web, worker = scene.connect(), scene.connect()
        text = await (await web.lock("x").acquire()).detach()
        await (await worker.attach(text)).release()
        with pytest.raises(LeaseLost):
            await worker.attach(text)
        async with web.lock("x", timeout=0):
            with pytest.raises(LeaseLost):
                await worker.attach(text)

    @needs(Capability.DETACHING)
    async def test_it_may_be_detached_again(self, scene: Scene) -> None:
        first, second, third = (scene.connect() for _ in range(3))
        lease = await first.lock("x", ttl=20).acquire() if scene.limits[1] >= 20 else None
        lease = lease or await first.lock("x").acquire()
        text = await lease.detach()
        again = await second.attach(text)
        last = await third.attach(await again.detach())
        assert last.fence == lease.fence
        await last.release()

    @needs(Capability.DETACHING)
    async def test_an_attached_lock_may_be_entered_again(self, scene: Scene) -> None:
        web, worker = scene.connect(), scene.connect()
        text = await (await web.lock("x").acquire()).detach()

        async def work() -> None:
            async with await worker.attach(text) as lease, worker.lock("x", timeout=0) as again:
                assert again.fence == lease.fence

        await scene.spawn(work).result()
        assert not await web.lock("x").locked()

    @needs(Capability.DETACHING, Capability.SHARED)
    async def test_a_detached_read_keeps_out_writers_alone(self, scene: Scene) -> None:
        web, worker, others = (scene.connect() for _ in range(3))
        shared = others.rwlock("x")

        async def only_readers_enter() -> None:
            assert await shared.write().acquire(blocking=False) is None
            async with await shared.read().acquire(blocking=False):
                pass

        lease = await web.rwlock("x").read().acquire()
        text = await lease.detach()
        await only_readers_enter()
        attached = await worker.attach(text)
        assert (attached.mode, attached.fence) == (Mode.SHARED, lease.fence)
        await only_readers_enter()
        await attached.release()
        assert await shared.write().acquire(blocking=False) is not None

    @needs(Capability.DETACHING, Capability.PERMITS)
    async def test_a_detached_permit_is_counted(self, scene: Scene) -> None:
        web, worker = scene.connect(), scene.connect()
        others = scene.connect().semaphore("x", 2)
        lease = await web.semaphore("x", 2).acquire()
        text = await lease.detach()
        assert await others.acquire(blocking=False) is not None
        assert await others.acquire(blocking=False) is None
        attached = await worker.attach(text)
        assert (attached.mode, attached.fence) == (Mode.PERMIT, lease.fence)
        assert await others.acquire(blocking=False) is None
        await attached.release()
        assert await others.acquire(blocking=False) is not None

    @needs(Capability.DETACHING, Capability.LEASE)
    async def test_nobody_attaches_and_it_runs_out(self, scene: Scene) -> None:
        web, worker = scene.connect(), scene.connect()
        lease = await web.lock("x").acquire()
        text = await lease.detach(ttl=scene.ttl)
        assert await worker.lock("x").acquire(timeout=20) is not None
        with pytest.raises(LeaseLost):
            await worker.attach(text)

    @needs(Capability.DETACHING)
    async def test_an_entered_lease_is_not_detached(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        async with lock as lease:
            async with lock:
                with pytest.raises(NotHeld, match="more than once"):
                    await lease.detach()
            assert lease.held

    @needs(Capability.DETACHING)
    async def test_a_finished_lease_is_not_detached(self, scene: Scene) -> None:
        lease = await scene.connect().lock("x").acquire()
        await lease.release()
        with pytest.raises(NotHeld):
            await lease.detach()
        lost = await scene.connect().lock("x", ttl=scene.ttl, auto_renew=False).acquire()
        assert await lost.lost.wait(20)
        with pytest.raises(LeaseLost):
            await lost.detach()

    @needs(Capability.DETACHING)
    async def test_wrong_texts_are_refused(self, scene: Scene) -> None:
        locks = scene.connect()
        other = scene.connect(namespace=f"{scene.namespace}-2")
        text = await (await locks.lock("x").acquire()).detach()
        wrong: list[Any] = [
            "", "x", "locknut1.", "locknut1.!!!", "locknut1.e30", "locknut1.W10", text[:-4],
            text + "AAAA", text.upper(), None, 7, text.encode(),
        ]  # fmt: skip
        for each in wrong:
            with pytest.raises(ConfigurationError):
                await locks.attach(each)
        with pytest.raises(ConfigurationError, match="namespace"):
            await other.attach(text)
        await (await locks.attach(text)).release()

    @needs(Capability.DETACHING)
    async def test_waiters_of_the_detaching_client_are_not_let_in(self, scene: Scene) -> None:
        web, worker = scene.connect(), scene.connect()
        news = scene.news(web)
        lease = await web.lock("x").acquire()
        inside = scene.gate()

        async def wait() -> Any:
            async with web.lock("x") as mine:
                inside.open()
                return mine.fence

        waiter = scene.spawn(wait)
        await news.heard("waiting")
        text = await lease.detach()
        attached = await worker.attach(text)
        assert not inside.is_open()
        await attached.release()
        assert await waiter.result() > lease.fence
