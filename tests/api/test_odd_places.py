"""Where nobody expects locks and leases: copied, pickled, shown, and used on other loops."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import locknut
from locknut import aio
from tests.api.crowd import PATIENCE, in_thread


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
def test_no_lease_is_copied_or_pickled(locks: locknut.Locks, how: Any) -> None:
    lease, leases = locks.lock("x").acquire(), locks.all("a", "b").acquire()
    assert lease is not None
    assert leases is not None
    for each in (lease, leases):
        with pytest.raises(TypeError, match=r"detach\(\)"):
            how(each)
    assert lease.held
    lease.check()
    lease.release()
    leases.release()


@pytest.mark.parametrize("how", [copy.copy, pickle.dumps])
def test_nor_is_what_tasks_have(url: str, how: Any) -> None:
    async def main() -> None:
        async with aio.connect(url) as locks, locks.lock("x") as lease, locks.all("a", "b") as two:
            for each in (lease, two):
                with pytest.raises(TypeError, match=r"detach\(\)"):
                    how(each)
            assert lease.held

    asyncio.run(main())


def test_a_non_blocking_attempt_by_threadings_own_defaults(locks: locknut.Locks, url: str) -> None:
    assert locks.lock("x").acquire(False, -1)
    assert in_thread(lambda: locks.lock("x").acquire(False, -1)) is None
    for wrong in (1, 0, "-1"):
        with pytest.raises(locknut.ConfigurationError, match="blocking=False"):
            locks.lock("x").acquire(False, wrong)

    async def main() -> None:
        async with aio.connect(url) as others:
            assert await others.lock("x").acquire(False, -1) is None
            assert await others.all("x", "y").acquire(False, -1) is None

    asyncio.run(main())


@pytest.mark.parametrize("permits", [10**14, 2**64, 0, -1, True, 1.0])
def test_permits_that_nobody_can_count(locks: locknut.Locks, permits: Any) -> None:
    with pytest.raises(locknut.ConfigurationError, match="permits"):
        locks.semaphore("x", permits)
    locks.semaphore("x", 10**14 - 1)


def test_an_asyncio_lock_is_shown_anywhere(url: str) -> None:
    shown: list[str] = []
    locks = aio.connect(url)
    lock = locks.lock("x")
    shown.append(repr(lock))  # without a loop

    async def main() -> None:
        loop = asyncio.get_running_loop()
        async with lock:
            shown.append(repr(lock))
            seen = loop.create_future()
            loop.call_soon(lambda: seen.set_result(repr(lock)))  # in no task
            shown.append(await seen)
            shown.append(await asyncio.to_thread(repr, lock))
        await locks.close()

    asyncio.run(main())
    shown.append(repr(lock))  # the loop is closed
    here = ["held here" in each and "not held" not in each for each in shown]
    assert here == [False, True, False, False, False]


USES: dict[str, Callable[[aio.Locks, Any, Any], Coroutine[Any, Any, Any]]] = {
    "release": lambda _, lease, __: lease.release(),
    "renew": lambda _, lease, __: lease.renew(),
    "detach": lambda _, lease, __: lease.detach(),
    "lease.info": lambda _, lease, __: lease.info(),
    "lost.wait": lambda _, lease, __: lease.lost.wait(0.01),
    "leases.release": lambda _, __, leases: leases.release(),
    "lock.release": lambda locks, _, __: locks.lock("x").release(),
    "lock.info": lambda locks, _, __: locks.lock("x").info(),
    "locked": lambda locks, _, __: locks.lock("x").locked(),
    "info": lambda locks, _, __: locks.info("x"),
    "list": lambda locks, _, __: locks.list(),
    "force_release": lambda locks, _, __: locks.force_release("x"),
    "close": lambda locks, _, __: locks.close(),
}


@pytest.mark.parametrize("use", USES)
def test_another_loop_is_refused_before_anything_is_said(url: str, use: str) -> None:
    """On a thread of its own, while the first loop runs."""

    async def main() -> None:
        async with aio.connect(url) as locks, locks.lock("x") as lease, locks.all("a", "b") as two:
            sent: list[str] = []
            backend: Any = locks._client.backend
            for name in ("release", "release_all", "renew", "detach", "inspect", "break_hold"):
                setattr(backend, name, lambda *_, name=name, **__: sent.append(name))

            async def elsewhere() -> None:
                await USES[use](locks, lease, two)

            def run() -> None:
                with pytest.raises(locknut.ConfigurationError, match="another event loop"):
                    asyncio.run(elsewhere())

            await asyncio.to_thread(run)
            assert sent == []
            for name in ("release", "release_all", "renew", "detach", "inspect", "break_hold"):
                delattr(backend, name)
            assert lease.held
            assert two.held

    asyncio.run(main())


def test_after_its_loop_a_locks_can_be_closed_on_another(url: str) -> None:
    locks = aio.connect(url)

    async def hold() -> Any:
        return await locks.lock("x").acquire()

    lease = asyncio.run(hold())
    with pytest.raises(locknut.ConfigurationError, match="another event loop"):
        asyncio.run(lease.release())
    asyncio.run(locks.close())
    assert not lease.held
    with locknut.connect(url) as others, others.lock("x", timeout=PATIENCE):
        pass
