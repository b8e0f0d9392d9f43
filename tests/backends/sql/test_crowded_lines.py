"""Two hundred tasks of twenty clients wait in the line of one lock, in the table of each server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from locknut import aio
from tests.backends.sql.session.conftest import DATABASES, SERVERS
from tests.servers.sql import SqlServer

CLIENTS, TASKS = 20, 10
"""So many that know nothing of each other, and in each so many that stand in line for themselves,
as fair ones do."""
LONG = 600


@pytest.fixture(params=DATABASES)
def large_server(request: pytest.FixtureRequest) -> Iterator[SqlServer]:
    """A client has two connections for commands, and some on which it waits."""
    with SERVERS[request.param](connections=CLIENTS * 10 + 20) as server:
        yield server


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_hundred_tasks_wait_and_each_gets_it_once(large_server: SqlServer) -> None:
    async def story(url: str) -> None:
        fences: list[int] = []
        async with AsyncExitStack() as stack:

            async def client() -> aio.Locks:
                return await stack.enter_async_context(aio.connect(f"{url}?connections=2"))

            async def use(locks: aio.Locks) -> None:
                async with locks.lock("x", fair=True, timeout=LONG) as lease:
                    fences.append(lease.fence)

            first = await client()
            held = await first.lock("x", fair=True, ttl=LONG).acquire(timeout=LONG)
            assert held is not None
            tasks: list[asyncio.Task[None]] = []
            for _ in range(CLIENTS):
                # One client's stand together: more than two of one could not be woken by others.
                each = await client()
                tasks += [asyncio.create_task(use(each)) for _ in range(TASKS)]
                while len((await first.info("x")).waiters) < len(tasks):  # noqa: ASYNC110 -- in a table
                    await asyncio.sleep(0.02)
            await held.release()
            await asyncio.gather(*tasks)
            assert len(fences) == CLIENTS * TASKS
            assert held.fence is not None
            assert [held.fence, *fences] == sorted({held.fence, *fences})
            assert not (await first.info("x")).waiters

    with large_server.database() as database:
        asyncio.run(story(database.url))
