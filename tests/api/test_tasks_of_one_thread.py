"""A blocking lock in asyncio code: no other task of the same thread is let in beside the first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import locknut

KINDS: dict[str, Callable[[locknut.Locks], Any]] = {
    "lock": lambda locks: locks.lock("x"),
    "fair": lambda locks: locks.lock("x", fair=True),
    "writer": lambda locks: locks.rwlock("x").write(),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", ["with", "acquire", "try", "read"])
def test_another_task_is_refused(locks: locknut.Locks, kind: str, use: str) -> None:
    lock = KINDS[kind](locks)
    uses: dict[str, Callable[[], object]] = {
        "with": lock.__enter__,
        "acquire": lock.acquire,
        "try": lambda: lock.acquire(blocking=False),
        "read": locks.rwlock("x").read().acquire,
    }

    async def other() -> None:
        with pytest.raises(locknut.DeadlockDetected, match=r"locknut\.aio"):
            uses[use]()

    async def main() -> None:
        with lock as lease:
            await asyncio.create_task(other())
            with lock:  # its own task enters it again
                await asyncio.create_task(other())
            assert lease.held
            assert lease._count == 1
        assert not lock.locked()

    asyncio.run(main())


def test_five_tasks_are_never_inside_at_once(locks: locknut.Locks) -> None:
    inside: list[int] = []

    async def work(number: int) -> bool:
        try:
            with locks.lock("x"):
                inside.append(number)
                await asyncio.sleep(0)
                assert inside == [number]
                inside.clear()
        except locknut.DeadlockDetected:
            return False
        return True

    async def main() -> list[bool]:
        return await asyncio.gather(*map(work, range(5)))

    assert sum(asyncio.run(main())) == 1


def test_a_callback_of_the_loop_is_refused_too(locks: locknut.Locks) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        told: asyncio.Future[BaseException | None] = loop.create_future()

        def callback() -> None:
            try:
                locks.lock("x").acquire()
            except locknut.DeadlockDetected as error:
                told.set_result(error)
            else:
                told.set_result(None)

        with locks.lock("x"):
            loop.call_soon(callback)
            assert await told is not None

    asyncio.run(main())


def test_around_a_loop_the_first_task_inside_excludes_the_others(locks: locknut.Locks) -> None:
    lock = locks.lock("x")

    async def enter() -> bool:
        try:
            with lock:
                await asyncio.sleep(0)
        except locknut.DeadlockDetected:
            return False
        return True

    async def main() -> None:
        assert sorted(await asyncio.gather(enter(), enter())) == [False, True]
        assert await asyncio.create_task(enter())  # the first has left by now

    with lock:
        asyncio.run(main())
    assert not lock.locked()


def test_around_a_loop_where_greenlets_are_known_too(locks: locknut.Locks) -> None:
    """SQLAlchemy imports them, say: the thread's own greenlet is inside, and runs the tasks."""
    pytest.importorskip("greenlet")
    test_around_a_loop_the_first_task_inside_excludes_the_others(locks)


def test_what_a_task_left_behind_is_the_threads(locks: locknut.Locks) -> None:
    lock = locks.lock("x")

    async def enter() -> None:
        assert lock.acquire()

    async def main() -> None:
        await asyncio.create_task(enter())
        await asyncio.create_task(enter())
        lock.release()
        lock.release()

    asyncio.run(main())
    assert not lock.locked()


@pytest.mark.parametrize("kind", ["reader", "permit", "owner"])
def test_what_excludes_nobody_of_the_thread_is_shared(locks: locknut.Locks, kind: str) -> None:
    makes: dict[str, Callable[[], Any]] = {
        "reader": lambda: locks.rwlock("x").read(),
        "permit": lambda: locks.semaphore("x", 2),
        "owner": lambda: locks.lock("x", owner="me"),
    }

    async def enter() -> None:
        with makes[kind]():
            await asyncio.sleep(0)

    async def main() -> None:
        with makes[kind]():
            await asyncio.create_task(enter())

    asyncio.run(main())
    assert not makes[kind]().locked()


def test_what_was_taken_together(locks: locknut.Locks) -> None:
    async def other() -> None:
        with pytest.raises(locknut.DeadlockDetected):
            locks.lock("x").acquire()

    async def main() -> None:
        with locks.all("x", "y"):
            await asyncio.create_task(other())

    asyncio.run(main())
