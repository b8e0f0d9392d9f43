"""The fixtures with the plugins that run people's asyncio tests, as these are."""

from __future__ import annotations

import pytest

from tests.plugin.projects import passes, write

pytest_plugins = ["pytester"]

TESTS = """
    import asyncio
    import locknut, pytest
    from locknut import aio

    pytestmark = pytest.mark.{marker}
    locks = aio.connect("redis://localhost:1/0")
    LOCK = locks.lock("a", ttl=30, timeout=5)

    @locks.locked("order:{{order}}", timeout=5)
    async def charge(order):
        return order

    @pytest.mark.parametrize("turn", [1, 2])
    async def test_in_the_loop_of_each_test(locknut_fakes, turn):
        assert await charge(turn) == turn
        async with LOCK as lease, aio.lock("b"):
            assert lease.held

    async def test_busy(locknut_hold):
        with locknut_hold("order:1"), pytest.raises(locknut.AcquireTimeout):
            await charge(1)

    async def test_tasks_and_the_clock(locknut_hold, locknut_clock):
        locknut_hold("a")
        task = asyncio.create_task(LOCK.acquire(timeout=60))
        await asyncio.sleep(0)
        locknut_clock.advance(59)
        await locknut_clock.settled()
        assert not task.done()
        locknut_clock.advance(2)
        await locknut_clock.settled()
        assert task.result() is None

    async def test_a_loss_cancels_the_body(locknut_lose):
        with pytest.raises(locknut.LeaseLost):
            async with LOCK:
                locknut_lose("a")
                await asyncio.sleep(60)

    @{fixture}
    async def shared():
        async with aio.connect("redis://localhost:1/0") as made, made.lock("shared"):
            yield made

    async def test_an_async_fixture_before_ours(shared, locknut_assert_held):
        locknut_assert_held("shared")

    @{fixture}
    async def wider(locknut_locks):
        async with LOCK as lease:
            yield lease

    async def test_an_async_fixture_after_ours(wider):
        assert wider.held

    async def test_an_async_fixture_alone(shared):
        assert (await shared.info("shared")).locked
"""


def test_pytest_asyncio(pytester: pytest.Pytester) -> None:
    text = TESTS.format(marker="asyncio", fixture="pytest_asyncio.fixture")
    write(pytester, test_loops="    import pytest_asyncio\n" + text)
    scope = "asyncio_default_fixture_loop_scope = function"
    pytester.makeini(f"[pytest]\nlocknut_real_locks = replace\n{scope}\n")
    passes(pytester, 8, others=("-p", "no:anyio"))


@pytest.mark.slow
def test_anyio(pytester: pytest.Pytester) -> None:
    backend = "    @pytest.fixture\n    def anyio_backend():\n        return 'asyncio'\n"
    text = TESTS.format(marker="anyio", fixture="pytest.fixture") + "\n" + backend
    write(pytester, test_loops=text)
    pytester.makeini("[pytest]\nlocknut_real_locks = replace\n")
    passes(pytester, 8, others=("-p", "no:asyncio"))
