"""A forked child lets its parent's connections alone, in both colours."""

from __future__ import annotations

import asyncio
import os
import traceback
from collections.abc import Callable

import pytest

import holdfast
from holdfast import aio
from holdfast.errors import ConfigurationError, NotHeld
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]


def in_child(work: Callable[[], None]) -> int:
    """Run it in a forked child; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001  # whatever it was, the child must not go on as a test
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_childs_lease_is_inert_and_the_parents_lives(server: RedisServer) -> None:
    with holdfast.connect(server.url, namespace="t") as locks, locks.lock("x", ttl=5) as lease:

        def child() -> None:
            with pytest.raises(NotHeld):
                lease.release()
            with pytest.raises(ConfigurationError):
                locks.lock("y").acquire()
            with holdfast.connect(server.url, namespace="t") as own:
                assert own.lock("x").acquire(timeout=0) is None
                with own.lock("y", timeout=0):
                    pass

        assert in_child(child) == 0
        lease.renew()
        assert locks.info("x").locked


def test_a_loops_connection_survives_the_child(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks, locks.lock("x") as lease:

            def child() -> None:
                with pytest.raises(NotHeld):
                    lease.check()
                with holdfast.connect(server.url, namespace="t") as own:
                    assert own.lock("x").acquire(timeout=0) is None

            assert in_child(child) == 0
            for _ in range(3):
                await lease.renew()
            assert (await locks.info("x")).locked

    asyncio.run(story())
