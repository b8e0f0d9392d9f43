"""A caller on a loop is cancelled at each of its awaits, on uvloop too: nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
import uvloop

from locknut import aio
from locknut.testing.conformance.cancellation import CancelledAt
from tests.backends.redis.conftest import PATIENCE
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]
LOOPS = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}
MOST = 40


@pytest.fixture(params=LOOPS.values(), ids=list(LOOPS))
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def run(story: Awaitable[None]) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(story, PATIENCE * 3))

    return run


async def _visit(locks: aio.Locks) -> None:
    async with locks.lock("x", timeout=PATIENCE):
        await asyncio.sleep(0)


async def _cancelled(locks: aio.Locks, moment: int) -> int:
    """How often it suspended, cancelled (twice) at this one of them."""
    cut = CancelledAt(_visit(locks), moment, moment + 1)

    async def caller() -> None:
        await cut

    with suppress(asyncio.CancelledError):
        await asyncio.create_task(caller())
    return cut.suspended


def test_alone(server: RedisServer, run: Callable[[Awaitable[None]], None]) -> None:
    async def story() -> None:
        async with (
            aio.connect(server.url, namespace="t") as locks,
            aio.connect(server.url, namespace="t") as other,
        ):
            await _visit(locks)
            for moment in range(1, MOST):
                suspended = await _cancelled(locks, moment)
                async with other.lock("x", timeout=PATIENCE):
                    assert not (await other.info("x")).waiters
                if suspended < moment:
                    return
        pytest.fail("it never came to its end")

    run(story())


def test_among_others(server: RedisServer, run: Callable[[Awaitable[None]], None]) -> None:
    """Those that share the connection get their own answers, whoever else is cancelled."""

    async def busy(locks: aio.Locks, name: str, fences: list[int]) -> None:
        for _ in range(5):
            async with locks.lock(name) as lease:
                fences.append(lease.fence)
                assert (await locks.info(name)).holders[0].fence == lease.fence

    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            for moment in range(1, 9):
                all_fences: list[list[int]] = [[] for _ in range(4)]
                async with asyncio.TaskGroup() as group:
                    for i, fences in enumerate(all_fences):
                        group.create_task(busy(locks, f"n{i}", fences))
                    for _ in range(4):
                        group.create_task(_cancelled(locks, moment))
                for fences in all_fences:
                    assert fences == sorted(set(fences))
            assert await locks.lock("x").acquire(timeout=PATIENCE)

    run(story())
