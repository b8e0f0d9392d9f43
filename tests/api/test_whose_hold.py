"""Whose hold it is when one task acquires, another uses it, and a third one leaves."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest

import locknut
from locknut import aio
from tests.api.crowd import PATIENCE, TTL, in_thread

Take = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


async def by_wait_for(acquire: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(acquire, PATIENCE)


async def by_a_task(acquire: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.create_task(acquire)


async def by_gather(acquire: Coroutine[Any, Any, Any]) -> Any:
    return (await asyncio.gather(acquire))[0]


async def by_shield(acquire: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.shield(acquire)


WAYS = [by_wait_for, by_a_task, by_gather, by_shield]


@pytest.fixture
def others(url: str) -> Any:
    """Somebody else, who asks from a thread and keeps nothing."""
    with locknut.connect(url) as made:
        yield made


def free(others: locknut.Locks, name: str = "x", timeout: float = 0) -> bool:
    """Whether somebody else can have it; an abandoned one comes free a little later."""

    def ask() -> bool:
        lease = others.lock(name).acquire(timeout=timeout)
        if lease is not None:
            lease.release()
        return lease is not None

    return bool(in_thread(ask))


def collected() -> None:
    for _ in range(3):
        gc.collect()


@pytest.mark.parametrize("take", WAYS)
@pytest.mark.parametrize("kind", ["lock", "semaphore", "all", "attach"])
def test_who_tests_the_result_for_truth_has_the_lock(
    url: str, others: locknut.Locks, take: Take, kind: str
) -> None:
    def ask(locks: aio.Locks) -> Any:
        if kind == "semaphore":
            return locks.semaphore("x", 1)
        return locks.all("x", "y") if kind == "all" else locks.lock("x", ttl=TTL)

    def is_free() -> bool:
        if kind != "semaphore":
            return free(others)
        return bool(in_thread(lambda: others.semaphore("x", 1).acquire(False)))

    async def main() -> None:
        async with aio.connect(url) as locks:
            if kind == "attach":
                lease = await ask(locks).acquire()
                text = await lease.detach()
                acquire: Any = locks.attach(text)
                del lease
            else:
                acquire = ask(locks).acquire()
            if await take(acquire):
                del acquire
                await asyncio.sleep(0)
                collected()
                await asyncio.sleep(0)
                assert not await asyncio.to_thread(is_free)
                if kind == "all":
                    assert locks.lock("x").held
                    await locks.lock("y").release()
                    await locks.lock("x").release()
                else:
                    assert ask(locks).held
                    await ask(locks).release()
                with pytest.raises(locknut.NotHeld):
                    await locks.lock("x").release()
            assert await locks.list() == []

    asyncio.run(main())


@pytest.mark.parametrize("take", WAYS)
def test_it_is_entered_again_and_released_for_the_task_that_called(url: str, take: Take) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks, asyncio.timeout(PATIENCE):
            assert await take(locks.lock("x").acquire())
            async with locks.lock("x") as lease:
                assert lease.held
            await take(locks.lock("x").release())
            assert not await locks.lock("x").locked()

    asyncio.run(main())


def test_it_ends_with_the_task_that_called(url: str, others: locknut.Locks) -> None:
    """L11: the acquiring task has ended, and so has the one it was acquired for."""

    async def user(locks: aio.Locks) -> None:
        assert await asyncio.create_task(locks.lock("x").acquire())

    async def main() -> None:
        async with aio.connect(url) as locks:
            await asyncio.create_task(user(locks))
            collected()
            assert await asyncio.to_thread(free, others, "x", PATIENCE)

    asyncio.run(main())


def test_a_task_that_forgets_to_release_keeps_nothing(url: str, others: locknut.Locks) -> None:
    """L11: it was not made for the acquire alone, so what it acquired was its own."""

    async def forget(locks: aio.Locks) -> None:
        assert await locks.lock("x").acquire()

    async def main() -> None:
        async with aio.connect(url) as locks:
            await asyncio.create_task(forget(locks))
            collected()
            assert await asyncio.to_thread(free, others, "x", PATIENCE)

    asyncio.run(main())


def test_what_leads_back_to_its_task_keeps_nothing(url: str, others: locknut.Locks) -> None:
    async def forget(locks: aio.Locks) -> weakref.ref[Any]:
        task: Any = asyncio.current_task()
        lease = await locks.lock("x").acquire()
        assert lease is not None
        lease.on_lost(lambda _: task.cancel())
        return weakref.ref(task)

    async def main() -> None:
        async with aio.connect(url) as locks:
            task = await asyncio.create_task(forget(locks))
            await asyncio.sleep(0)  # until then the loop itself refers to it
            collected()
            assert task() is None
            assert await asyncio.to_thread(free, others, "x", PATIENCE)

    asyncio.run(main())


def test_two_acquires_of_one_task_exclude_each_other(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            lock = locks.lock("x")
            assert await asyncio.create_task(lock.acquire())
            second = asyncio.create_task(lock.acquire())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not second.done()
            await lock.release()
            assert await second
            await lock.release()
            assert not await lock.locked()

    asyncio.run(main())


def test_a_reader_that_has_a_read_acquired_besides(url: str, others: locknut.Locks) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            assert await locks.rwlock("x").read().acquire()
            assert await asyncio.create_task(locks.rwlock("x").read().acquire())
            await locks.rwlock("x").read().release()
            assert not await asyncio.to_thread(free, others)
            await locks.rwlock("x").read().release()
            assert await asyncio.to_thread(free, others)

    asyncio.run(main())


def test_outside_of_any_task_it_is_held_until_somebody_releases(
    url: str, others: locknut.Locks
) -> None:
    loop = asyncio.new_event_loop()
    try:
        locks = aio.connect(url)
        assert loop.run_until_complete(locks.lock("x").acquire())
        collected()
        assert not free(others)
        loop.run_until_complete(locks.lock("x").release())
        assert free(others)
        with pytest.raises(locknut.NotHeld):
            loop.run_until_complete(locks.lock("x").release())
        loop.run_until_complete(locks.close())
    finally:
        loop.close()


def test_for_another_thread_it_is_held_until_somebody_releases(
    url: str, others: locknut.Locks
) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with aio.connect(url) as locks:

            def elsewhere() -> None:
                lock = locks.lock("x")
                assert asyncio.run_coroutine_threadsafe(lock.acquire(), loop).result(PATIENCE)

            await asyncio.to_thread(elsewhere)
            collected()
            assert not await asyncio.to_thread(free, others)
            await locks.lock("x").release()
            assert await asyncio.to_thread(free, others)

    asyncio.run(main())


async def rows(lock: Any) -> AsyncIterator[int]:
    async with lock:
        for number in range(3):
            yield number


KINDS: dict[str, Callable[[aio.Locks], Any]] = {
    "lock": lambda locks: locks.lock("x", ttl=TTL),
    "reader": lambda locks: locks.rwlock("x").read(),
    "permit": lambda locks: locks.semaphore("x", 1),
    "all": lambda locks: locks.all("x", "y"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_asynchronous_generator_that_is_left_half_way(url: str, kind: str) -> None:
    """The loop closes it in a task of its own; the consumer's task is over by then, or is not."""
    troubles: list[Any] = []

    async def consume(lock: Any) -> None:
        async for _ in rows(lock):
            break

    async def take(lock: Any) -> None:
        async with lock:  # as soon as the loop has closed the generators
            pass

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: troubles.append(what))
        async with aio.connect(url) as locks, asyncio.timeout(PATIENCE):
            await asyncio.create_task(consume(KINDS[kind](locks)))
            await consume(KINDS[kind](locks))
            await asyncio.create_task(take(KINDS[kind](locks)))
            assert await locks.list() == []

    asyncio.run(main())
    assert troubles == []


@pytest.mark.parametrize("kind", KINDS)
def test_set_up_in_one_task_and_torn_down_in_another(
    url: str, others: locknut.Locks, kind: str
) -> None:
    """As a fixture is: its two halves run in two tasks, with the test's own in between."""

    async def main() -> None:
        async with aio.connect(url) as locks:
            fixture = rows(KINDS[kind](locks))
            await asyncio.create_task(anext(fixture))  # type: ignore[arg-type]
            collected()
            held = {info.name for info in await locks.list()}
            assert held == ({"x", "y"} if kind == "all" else {"x"})
            await asyncio.create_task(fixture.aclose())  # type: ignore[attr-defined]
            assert await locks.list() == []

    asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entered", ["by a task that ended", "by one that goes on"])
def test_an_exit_stack_that_is_closed_elsewhere(url: str, kind: str, entered: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks, asyncio.timeout(PATIENCE):
            stack, inside, go_on = AsyncExitStack(), asyncio.Event(), asyncio.Event()

            async def enter() -> None:
                await stack.enter_async_context(KINDS[kind](locks))
                inside.set()
                if entered == "by one that goes on":
                    await go_on.wait()

            task = asyncio.create_task(enter())
            await inside.wait()
            await asyncio.create_task(stack.aclose())
            assert await locks.list() == []
            go_on.set()
            await task

    asyncio.run(main())


def test_a_lease_is_left_elsewhere(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            stack = AsyncExitStack()

            async def enter() -> None:
                lease = await locks.lock("x").acquire()
                assert lease is not None
                await stack.enter_async_context(lease)

            await asyncio.create_task(enter())
            await asyncio.create_task(stack.aclose())
            assert await locks.list() == []

    asyncio.run(main())


def test_each_leaves_what_it_entered(url: str) -> None:
    """With several inside one lock object, and another one's exit stack closed by a third."""

    async def main() -> None:
        async with aio.connect(url) as locks, asyncio.timeout(PATIENCE):
            permits = locks.semaphore("x", 3)
            stack = AsyncExitStack()
            await asyncio.create_task(stack.enter_async_context(permits))
            async with permits as mine:
                await asyncio.create_task(stack.aclose())
                assert mine.held
            with pytest.raises(locknut.NotHeld):
                await permits.__aexit__(None, None, None)
            assert await locks.list() == []

    asyncio.run(main())


def test_a_loss_is_told_where_it_is_left(url: str) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks:
            stack = AsyncExitStack()
            short = locks.lock("x", ttl=0.05, auto_renew=False)
            lease = await asyncio.create_task(stack.enter_async_context(short))
            assert await lease.lost.wait(PATIENCE)
            with pytest.raises(locknut.LeaseLost):
                await stack.aclose()

    asyncio.run(main())


def test_a_body_that_is_left_without_a_loop_frees(url: str, others: locknut.Locks) -> None:
    """The loop was closed with a task inside: collecting the task leaves the `async with`."""
    lock: list[Any] = []

    def loop_that_is_closed() -> None:
        async def main() -> None:
            lock.append(aio.connect(url).lock("x"))
            inside = asyncio.Event()

            async def stay() -> None:
                async with lock[0]:
                    inside.set()
                    await asyncio.get_running_loop().create_future()

            task = asyncio.create_task(stay())
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            await inside.wait()
            kept.append(task)

        kept: list[Any] = []
        loop = asyncio.new_event_loop()
        loop.run_until_complete(main())
        loop.close()

    thread = threading.Thread(target=loop_that_is_closed)
    thread.start()
    thread.join(PATIENCE)
    collected()
    assert free(others, "x", PATIENCE)
