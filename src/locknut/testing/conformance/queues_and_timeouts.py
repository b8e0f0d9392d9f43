"""How long a caller waits, which waiter is next, and that giving up leaves nothing behind."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from locknut.core.values import Capability
from locknut.errors import AcquireTimeout, ConfigurationError
from locknut.testing.conformance.awaitable_face import bare
from locknut.testing.conformance.scene import Scene
from locknut.testing.conformance.suite import Part, needs


class _Counted:
    """A backend that counts how often it is asked."""

    def __init__(self, inner: Any):
        self._inner = inner
        self.attempts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def attempt(self, claim: Any, patience: float) -> Any:
        self.attempts += 1
        return await self._inner.attempt(claim, patience)


class QueuesAndTimeouts(Part):
    """Timeouts, and the line."""

    async def test_without_blocking_a_held_lock_is_not_waited_for(self, scene: Scene) -> None:
        lock = scene.connect().lock("x")
        async with scene.stranger("x"):
            assert await lock.acquire(blocking=False) is None
            assert await lock.acquire(timeout=0) is None
        assert await lock.acquire(blocking=False) is not None

    @pytest.mark.parametrize("timeout", [0.05, "50ms", timedelta(milliseconds=50)])
    async def test_gives_up_in_its_own_time(self, scene: Scene, timeout: Any) -> None:
        lock = scene.connect().lock("x")
        async with scene.stranger("x"):
            asked = scene.now()
            assert await lock.acquire(timeout=timeout) is None
            assert scene.now() >= asked + 0.049

    async def test_with_raises_and_never_runs_the_body(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", timeout=0.02)
        async with scene.stranger("x"):
            with pytest.raises(AcquireTimeout) as caught:
                async with lock:
                    pytest.fail("the body ran without the lock")
        assert isinstance(caught.value, TimeoutError)
        assert (caught.value.key, caught.value.backend) == ("x", scene.backend)

    async def test_the_locks_own_timeout_holds_for_acquire(self, scene: Scene) -> None:
        lock = scene.connect().lock("x", timeout=0.02)
        async with scene.stranger("x"):
            assert await lock.acquire() is None

    @pytest.mark.parametrize("timeout", [None, -1])
    async def test_waits_for_ever_until_it_is_free(self, scene: Scene, timeout: Any) -> None:
        locks = scene.connect()
        news = scene.news(locks)

        async def wait() -> Any:
            return await locks.lock("x").acquire(timeout=timeout)

        async with scene.stranger("x"):
            waiter = scene.spawn(wait)
            await news.heard("waiting")
        assert (await waiter.result()).held

    @pytest.mark.parametrize("timeout", [0, 1, "-1", "1s"])
    async def test_timeout_without_blocking_is_an_error(self, scene: Scene, timeout: Any) -> None:
        lock = scene.connect().lock("x")
        with pytest.raises(ValueError, match="timeout") as caught:
            await lock.acquire(blocking=False, timeout=timeout)
        assert isinstance(caught.value, ConfigurationError)
        assert not await lock.locked()

    async def test_threadings_own_defaults_are_one_attempt(self, scene: Scene) -> None:
        lock, other = scene.connect().lock("x"), scene.connect().lock("x")
        async with lock:
            assert await other.acquire(False, -1) is None
        lease = await other.acquire(False, -1)
        assert lease is not None
        await lease.release()

    async def test_the_timeout_is_one_budget_however_often_it_is_woken(self, scene: Scene) -> None:
        locks = scene.connect()
        over = scene.gate()

        async def wait() -> Any:
            return await locks.lock("x").acquire(timeout=0.3)

        async def wake_for_nothing() -> None:
            while not over.is_open():
                for signal in list(bare(locks)._client.waiting):
                    signal.notify()
                await scene.pause(0.01)

        async with scene.stranger("x"):
            crowd = [scene.spawn(wait) for _ in range(2)]  # one asks the engine, one stands in line
            waker = scene.spawn(wake_for_nothing)
            assert [await each.result() for each in crowd] == [None, None]
            over.open()
            await waker.result()

    async def test_giving_up_leaves_no_ghost_in_the_line(self, scene: Scene) -> None:
        first, second, third = (scene.connect() for _ in range(3))
        async with first.lock("x"):

            async def give_up() -> Any:
                return await second.lock("x").acquire(timeout=0.05)

            crowd = [scene.spawn(give_up) for _ in range(4)]
            assert [await each.result() for each in crowd] == [None] * 4
        lease = await third.lock("x").acquire(timeout=0)
        assert lease is not None

    async def test_the_one_behind_a_quitter_is_served(self, scene: Scene) -> None:
        holder, line = scene.connect(), scene.connect()
        news = scene.news(line)

        async def wait(timeout: Any = None) -> Any:
            lease = await line.lock("x").acquire(timeout=timeout)
            if lease is not None:
                await lease.release()
            return lease is not None

        async with holder.lock("x"):
            quitter = scene.spawn(lambda: wait(1.0))
            await news.heard("waiting", 1)
            patient = scene.spawn(wait)
            await news.heard("waiting", 2)
            assert not await quitter.result()
        assert await patient.result()

    @needs(Capability.FAIR)
    async def test_fair_is_first_come_first_served_across_clients(self, scene: Scene) -> None:
        clients = [scene.connect() for _ in range(4)]
        order: list[int] = []

        async def wait(number: int) -> None:
            async with clients[number].lock("x", fair=True):
                order.append(number)

        async with scene.connect().lock("x", fair=True):
            crowd = []
            for number, locks in enumerate(clients):
                news = scene.news(locks)
                crowd.append(scene.spawn(lambda n=number: wait(n)))  # type: ignore[misc]
                await news.heard("waiting")
        for each in crowd:
            await each.result()
        assert order == [0, 1, 2, 3]

    async def test_first_come_first_served_inside_a_client(self, scene: Scene) -> None:
        locks = scene.connect()
        news = scene.news(locks)
        order: list[int] = []

        async def wait(number: int) -> None:
            async with locks.lock("x"):
                order.append(number)

        async with locks.lock("x"):
            crowd = []
            for number in range(5):
                crowd.append(scene.spawn(lambda n=number: wait(n)))  # type: ignore[misc]
                await news.heard("waiting", number + 1)
        for each in crowd:
            await each.result()
        assert order == [0, 1, 2, 3, 4]

    @needs(Capability.WAKE_UP)
    async def test_waiting_is_not_asking_over_and_over(self, scene: Scene) -> None:
        locks = scene.connect()
        client = bare(locks)._client
        client.backend = counted = _Counted(client.backend)
        async with scene.stranger("x"):
            assert await locks.lock("x").acquire(timeout=2) is None
        # Looking twenty times a second would be 40. A few in the beginning are for votes: a node
        # may not have heard of the stranger when it is asked for the first time.
        assert counted.attempts <= 12

    @needs(Capability.LEASE)
    async def test_a_dead_holder_is_outlived(self, scene: Scene) -> None:
        port, locks = scene.port(), scene.connect()
        await port.attempt(scene.claim("x", ttl=scene.safe_ttl), 0.0)
        assert await locks.lock("x").acquire(blocking=False) is None
        lease = await locks.lock("x").acquire(timeout=20)
        assert lease.held

    async def test_closing_wakes_all_waiters(self, scene: Scene) -> None:
        async with scene.stranger("x"):
            await self._close_with_waiters(scene)

    @needs(Capability.FAIR, Capability.WAITERS)
    async def test_closing_leaves_nobody_in_the_line(self, scene: Scene) -> None:
        """Or else the next ones would wait behind somebody who is gone."""
        other = scene.connect()
        async with scene.stranger("x"):
            await self._close_with_waiters(scene)
            assert (await other.info("x")).waiters == ()

    async def _close_with_waiters(self, scene: Scene) -> None:
        """Three wait for what a stranger holds, and are told that their Locks was closed."""
        locks = scene.connect()
        news = scene.news(locks)

        async def wait() -> None:
            await locks.lock("x").acquire()

        crowd = [scene.spawn(wait) for _ in range(3)]
        await news.heard("waiting", 3)
        await locks.close()
        for each in crowd:
            with pytest.raises(ConfigurationError, match="closed"):
                await each.result()

    async def test_closing_releases_what_is_held(self, scene: Scene) -> None:
        locks, other = scene.connect(), scene.connect()
        lease = await locks.lock("x").acquire()
        await locks.close()
        assert not lease.held
        assert await other.lock("x").acquire(timeout=0) is not None
        with pytest.raises(ConfigurationError, match="closed"):
            await locks.lock("x").acquire()
        await locks.close()
