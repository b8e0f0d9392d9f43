"""A server that hangs (SIGSTOP): whoever asks returns in time, and what was asked for is undone."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

import locknut
from locknut import aio
from locknut.errors import AcquireTimeout, BackendUnavailable
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.memcached, pytest.mark.faults]
LATE = 1.5
"""How late a caller may return on a busy machine; without a limit it would be the server's 2 s and
more."""


def test_a_thread_returns_in_time(own_server: MemcachedServer) -> None:
    with locknut.connect(own_server.url) as locks:
        with locks.lock("x", timeout=30):
            pass
        own_server.stop()
        began = time.monotonic()
        with suppress(BackendUnavailable, AcquireTimeout):
            assert locks.lock("x").acquire(timeout=0.3) is None
        took = time.monotonic() - began
        own_server.cont()
        with locks.lock("x", timeout=20):
            pass
    assert took < 0.3 + LATE


@pytest.mark.slow
def test_a_task_returns_in_time(own_server: MemcachedServer) -> None:
    async def story() -> float:
        async with aio.connect(own_server.url) as locks:
            async with locks.lock("x", timeout=30):
                pass
            own_server.stop()
            began = time.monotonic()
            with suppress(BackendUnavailable, AcquireTimeout):
                assert await locks.lock("x").acquire(timeout=0.3) is None
            took = time.monotonic() - began
            own_server.cont()
            async with locks.lock("x", timeout=20):
                pass
        return took

    assert asyncio.run(story()) < 0.3 + LATE


@pytest.mark.slow
def test_closing_takes_no_longer_with_many_holds(own_server: MemcachedServer) -> None:
    locks = locknut.connect(own_server.url)
    held = [locks.lock(f"x{n}", timeout=30).acquire() for n in range(50)]
    assert all(held)
    own_server.stop()
    began = time.monotonic()
    locks.close()
    took = time.monotonic() - began
    own_server.cont()
    assert took < 8.0, "close() waits for one answer, not for fifty"


@pytest.mark.slow
def test_closing_on_a_loop_takes_no_longer_with_many_holds(own_server: MemcachedServer) -> None:
    async def story() -> float:
        locks = aio.connect(own_server.url)
        held = [await locks.lock(f"x{n}", timeout=30).acquire() for n in range(50)]
        assert all(held)
        own_server.stop()
        began = time.monotonic()
        await locks.close()
        took = time.monotonic() - began
        own_server.cont()
        return took

    assert asyncio.run(story()) < 8.0, "close() waits for one answer, not for fifty"
