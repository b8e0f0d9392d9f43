"""What an `asyncio.Lock` does holds for ours; and what is special about loops."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.runtimes.threads import run
from tests.api.crowd import TTL, renewed

PATIENCE = 20


def on_loop(test: Callable[[aio.Locks], Coroutine[Any, Any, None]]) -> Callable[[str], None]:
    def on_a_loop(url: str) -> None:
        async def main() -> None:
            async with aio.connect(url) as locks, asyncio.timeout(PATIENCE):
                await test(locks)
                assert await locks.list() == []

        asyncio.run(main())

    on_a_loop.__name__ = test.__name__
    return on_a_loop


@on_loop
async def test_acquire_and_release(locks: aio.Locks) -> None:
    lock = locks.lock("x")
    assert await lock.acquire()
    assert await lock.locked()
    await lock.release()
    assert not await lock.locked()
    with pytest.raises(RuntimeError):
        await lock.release()


@on_loop
async def test_the_order_of_waiters(locks: aio.Locks) -> None:
    lock = locks.lock("x")
    order: list[int] = []

    async def work(number: int) -> None:
        async with lock:
            order.append(number)

    async with lock:
        tasks = [asyncio.create_task(work(n)) for n in range(10)]
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert order == list(range(10))


@on_loop
async def test_cancel_while_waiting(locks: aio.Locks) -> None:
    lock = locks.lock("x")
    await lock.acquire()
    first = asyncio.create_task(lock.acquire())
    second = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    await lock.release()
    with pytest.raises(asyncio.CancelledError):
        await first
    lease = await second
    assert lease is not None
    await lease.release()


@on_loop
async def test_cancel_race_with_the_grant(locks: aio.Locks) -> None:
    """bpo-27585: the one that was woken is cancelled; the next must not sleep for ever."""
    lock = locks.lock("x")
    await lock.acquire()
    first = asyncio.create_task(lock.acquire())
    second = asyncio.create_task(lock.acquire())
    third = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0)
    await lock.release()
    first.cancel()
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    lease = await third
    assert lease is not None
    await lease.release()


@on_loop
async def test_wait_for_times_out_and_leaves_nothing(locks: aio.Locks) -> None:
    holder, lock = locks.lock("x"), locks.lock("x")

    async def wait_for() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(lock.acquire(), 0.02)

    async def ask() -> Any:
        return await lock.acquire(timeout=0.01)

    async with holder:
        # In another task than the holder's, which would re-enter: 3.12's wait_for makes none.
        await asyncio.create_task(wait_for())
        assert await asyncio.create_task(ask()) is None
    async with lock:
        pass


@on_loop
async def test_acquired_in_a_task_that_ended_is_kept_by_the_lock(locks: aio.Locks) -> None:
    lock = locks.lock("x", ttl=TTL)
    lease = await asyncio.create_task(lock.acquire())
    assert lease is not None
    await asyncio.to_thread(renewed, lease)
    assert lease.held
    await lock.release()
    assert not lease.held


@on_loop
async def test_a_task_group(locks: aio.Locks) -> None:
    inside: list[int] = []

    async def work(number: int) -> None:
        async with locks.lock("x"):
            inside.append(number)
            await asyncio.sleep(0)
            assert inside.pop() == number

    async with asyncio.TaskGroup() as group:
        for number in range(30):
            group.create_task(work(number))


@on_loop
async def test_timeout_around_a_body(locks: aio.Locks) -> None:
    async def body() -> None:
        async with asyncio.timeout(0.02), locks.lock("x"):
            await asyncio.sleep(PATIENCE)

    with pytest.raises(TimeoutError):
        await body()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    async with locks.lock("x", timeout=0):
        pass


@on_loop
async def test_a_blocked_loop_does_not_lose_the_lock(locks: aio.Locks) -> None:
    async with locks.lock("x", ttl=TTL) as lease:
        renewed(lease)  # in which the loop stands still: that is the point
        assert lease.held
        lease.check()
        await asyncio.sleep(0)
        assert lease.held


@on_loop
async def test_many_tasks(locks: aio.Locks) -> None:
    count = [0]

    async def work() -> None:
        async with locks.lock("x"):
            before = count[0]
            await asyncio.sleep(0)
            count[0] = before + 1

    await asyncio.gather(*(work() for _ in range(300)))
    assert count == [300]


@on_loop
async def test_a_task_begun_inside_inherits_the_context_and_not_the_hold(locks: aio.Locks) -> None:
    lock = locks.lock("x")

    async def child() -> None:
        assert not lock.held
        assert await lock.acquire(blocking=False) is None
        with pytest.raises(locknut.NotHeld):
            await lock.release()

    async with lock:
        await asyncio.create_task(child())
        assert lock.held


@on_loop
async def test_tasks_that_share_a_context_have_their_own_holds(locks: aio.Locks) -> None:
    permits = locks.semaphore("x", 2)
    context = contextvars.copy_context()
    both_inside, first_left = asyncio.Event(), asyncio.Event()

    async def first() -> int:
        async with permits as lease:
            await both_inside.wait()
        assert not lease.held
        first_left.set()
        return lease.fence

    async def second() -> int:
        async with permits as lease:
            both_inside.set()
            await first_left.wait()
            assert lease.held
        return lease.fence

    tasks = [asyncio.get_running_loop().create_task(w(), context=context) for w in (first, second)]
    assert len(set(await asyncio.gather(*tasks))) == 2


def test_a_loop_on_another_thread_is_another_loop(url: str) -> None:
    """Its task is not taken for the one that runs on the first loop right now."""
    refused: list[BaseException] = []

    def elsewhere(locks: aio.Locks) -> None:
        async def main() -> None:
            await locks.lock("x").acquire()

        try:
            asyncio.run(main())
        except locknut.ConfigurationError as error:
            refused.append(error)

    async def main() -> None:
        async with aio.connect(url) as locks:
            async with locks.lock("x"):
                thread = threading.Thread(target=elsewhere, args=(locks,))
                thread.start()
                thread.join(PATIENCE)  # the loop stands still: this task is its current one
            assert len(refused) == 1

    asyncio.run(main())


def test_another_loop_is_refused_clearly(url: str) -> None:
    locks = aio.connect(url)

    async def use() -> None:
        async with locks.lock("x"):
            pass

    asyncio.run(use())
    with pytest.raises(locknut.ConfigurationError, match="another event loop"):
        asyncio.run(use())


def test_outside_a_loop_nothing_hangs(url: str) -> None:
    locks = aio.connect(url)
    lock = locks.lock("x")  # making one is allowed
    with pytest.raises(RuntimeError):
        run(lock.acquire())


def test_a_loop_that_ends_while_holding_frees_nothing_behind_our_back(url: str) -> None:
    """The loop is gone without close(): the lease is abandoned with its task, and comes free."""
    other = locknut.connect(url)
    locks = aio.connect(url)

    async def hold() -> None:
        assert await locks.lock("x").acquire()

    asyncio.run(hold())
    assert other.lock("x").acquire(timeout=PATIENCE) is not None
    other.close()
