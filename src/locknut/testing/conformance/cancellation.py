"""asyncio only: a caller cancelled at any of its awaits leaves nothing behind.

The coroutine is cancelled at its first suspension, then (in another run) at its second, and so on
until it finishes before; the cancellation is the loop's own, so it hits what is being awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from typing import Any

import pytest

from locknut.core.values import Capability
from locknut.errors import LocknutError
from locknut.testing.conformance.colours import PATIENCE
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs

MOST = 60
"""No call suspends more often than this."""


class CancelledAt:
    """Awaits a coroutine, and cancels the task that does so at its n-th suspension."""

    def __init__(self, work: Coroutine[Any, Any, Any], *moments: int):
        self._work = work
        self._moments = moments
        self.suspended = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        resume: Callable[[], Any] = steps.__next__
        while True:
            try:
                step = resume()
            except StopIteration as done:
                return done.value
            finally:
                del (
                    resume
                )  # it knows the error it threw: a cycle, which would keep the task's leases
            self.suspended += 1
            task = asyncio.current_task()
            if self.suspended in self._moments and task is not None:
                task.cancel()
            try:
                value = yield step
            except BaseException as error:  # noqa: BLE001  # it belongs to the work
                resume = _thrower(steps, error)
            else:
                resume = _sender(steps, value)


def _thrower(steps: Generator[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _sender(steps: Generator[Any, Any, Any], value: Any) -> Callable[[], Any]:
    return lambda: steps.send(value)


async def _at_every_await(
    make: Callable[[], Coroutine[Any, Any, Any]], after: Callable[[], Awaitable[Any]], more: int = 0
) -> None:
    """Run it cancelled at each of its suspensions; `more` adds a second one right behind."""
    for moment in range(1, MOST):
        cut = CancelledAt(make(), *range(moment, moment + 1 + more))

        async def run(cut: CancelledAt = cut) -> Any:
            return await cut

        with suppress(asyncio.CancelledError, LocknutError):
            async with asyncio.timeout(PATIENCE):
                await asyncio.create_task(run())
        await after()
        if cut.suspended < moment:
            return
    pytest.fail(f"suspends more than {MOST} times")


class Cancellation(Part):
    """Cancellation, and races with it."""

    colours = ("asyncio",)

    @pytest.mark.parametrize("more", [0, 1])
    async def test_acquiring_a_free_lock(self, scene: Scene, more: int) -> None:
        locks, other = scene.connect(), scene.connect()

        async def work() -> None:
            async with locks.lock("x"):
                await asyncio.sleep(0)

        await _at_every_await(work, lambda: scene.free(other, "x"), more)

    @pytest.mark.parametrize("more", [0, 1])
    async def test_waiting_and_getting_it(self, scene: Scene, more: int) -> None:
        locks, other = scene.connect(), scene.connect()
        holds: list[Any] = []

        async def work() -> None:
            lease = await other.lock("x").acquire(timeout=PATIENCE)
            loop = asyncio.get_running_loop()
            release = asyncio.ensure_future(lease.release())
            holds.append(release)
            loop.call_later(0.01, lambda: None)
            async with locks.lock("x", timeout=PATIENCE):
                await asyncio.sleep(0)

        async def after() -> None:
            with suppress(asyncio.CancelledError, LocknutError):
                for each in holds:
                    await each
            holds.clear()
            await scene.free(locks, "x")

        await _at_every_await(work, after, more)

    async def test_waiting_in_vain(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()

        async def work() -> None:
            assert await locks.lock("x").acquire(timeout=0.02) is None

        async with scene.stranger("x"):

            async def after() -> None:
                async def nobody_waits() -> bool:
                    return not (await other.info("x")).waiters

                await scene.eventually(nobody_waits)

            await _at_every_await(work, after)
        await scene.free(other, "x")

    async def test_releasing(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        leases: list[Any] = []

        async def work() -> None:
            await leases.pop().release()

        async def refill() -> None:
            await scene.free(other, "x")
            leases.append(await locks.lock("x").acquire(timeout=PATIENCE))

        await refill()
        await _at_every_await(work, refill)
        await leases.pop().release()

    async def test_taking_several(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()

        async def work() -> None:
            async with locks.all("a", "b", "c", timeout=PATIENCE):
                await asyncio.sleep(0)

        async def after() -> None:
            for name in "abc":
                await scene.free(other, name)

        await _at_every_await(work, after)

    @needs(Capability.DETACHING)
    async def test_renewing_detaching_attaching_looking(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        texts: list[str] = []

        async def work() -> None:
            lease = await locks.lock("x", ttl=max(scene.ttl, 5), timeout=PATIENCE).acquire()
            await lease.renew()
            await locks.info("x")
            await locks.list()
            texts.append(await lease.detach(ttl=scene.ttl))
            await (await other.attach(texts.pop())).release()

        async def after() -> None:
            with suppress(LocknutError):
                for text in texts:
                    await (await other.attach(text)).release()
            texts.clear()
            await other.force_release("x")  # a cut-off detach may have given nobody its text
            await scene.free(other, "x")

        await _at_every_await(work, after)

    @needs(Capability.SHARED)
    async def test_reading_and_writing(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()

        async def work() -> None:
            shared = locks.rwlock("x", timeout=PATIENCE)
            async with shared.write():
                await shared.read().acquire()
            await shared.read().release()

        await _at_every_await(work, lambda: scene.free(other, "x"))

    @needs(Capability.PERMITS)
    async def test_permits(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()

        async def work() -> None:
            async with locks.semaphore("x", 1, timeout=PATIENCE):
                await asyncio.sleep(0)

        async def after() -> None:
            async def free() -> Any:
                lease = await other.semaphore("x", 1).acquire(blocking=False)
                if lease is not None:
                    await lease.release()
                return lease is not None

            await scene.eventually(free)

        await _at_every_await(work, after)

    async def test_cancelled_in_the_moment_of_the_grant(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        for turn in range(10):
            lease = await locks.lock("x").acquire(timeout=PATIENCE)
            waiter = asyncio.create_task(locks.lock("x").acquire())
            await news.heard("waiting", turn + 1)
            await lease.release()  # the waiter is woken, and has not run yet
            waiter.cancel()
            with suppress(asyncio.CancelledError):
                await (await waiter).release()
            await scene.free(scene.connect(), "x")

    async def test_wait_for_ends_in_the_moment_of_the_grant(self, scene: Scene) -> None:
        locks = scene.connect()
        for turn in range(10):
            lease = await locks.lock("x").acquire(timeout=PATIENCE)
            asyncio.get_running_loop().call_later(
                0.01 + turn / 5000, asyncio.ensure_future, lease.release()
            )
            with suppress(TimeoutError):
                late = await asyncio.wait_for(locks.lock("x").acquire(), 0.011)
                await late.release()
            await scene.free(scene.connect(), "x")

    async def test_acquired_through_wait_for_and_released_by_the_caller(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        lease = await asyncio.wait_for(lock.acquire(), PATIENCE)  # another task, on 3.11 (L10)
        assert lease.held
        await asyncio.wait_for(lock.release(), PATIENCE)
        assert not lease.held
        await asyncio.wait_for(lock.acquire(), PATIENCE)
        await lock.release()
        assert not await lock.locked()

    async def test_a_crowd_cancelled_at_once(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        news = scene.news(locks)
        async with other.lock("x"):
            crowd = [asyncio.create_task(locks.lock("x").acquire()) for _ in range(20)]
            await news.heard("waiting", 20)
            for task in crowd:
                task.cancel()
            assert all(
                isinstance(each, asyncio.CancelledError)
                for each in await asyncio.gather(*crowd, return_exceptions=True)
            )
        await scene.free(other, "x")
