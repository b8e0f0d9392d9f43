"""A forked child lets its parent's connections alone, in both colours."""

from __future__ import annotations

import asyncio

import pytest

import locknut
from locknut import aio
from locknut.errors import NotHeld
from tests.forks.child import in_child
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]


def test_the_childs_lease_is_inert_and_the_parents_lives(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks, locks.lock("x", ttl=5) as lease:

        def child() -> None:
            with pytest.raises(NotHeld):
                lease.release()
            for own in (locks, locknut.connect(server.url, namespace="t")):
                assert own.lock("x").acquire(timeout=0) is None
                with own.lock("y", timeout=0):
                    pass

        in_child(child)
        lease.renew()
        assert locks.info("x").locked


def test_a_loops_connection_survives_the_child(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks, locks.lock("x") as lease:

            def child() -> None:
                with pytest.raises(NotHeld):
                    lease.check()
                with locknut.connect(server.url, namespace="t") as own:
                    assert own.lock("x").acquire(timeout=0) is None

            in_child(child)
            for _ in range(3):
                await lease.renew()
            assert (await locks.info("x")).locked

    asyncio.run(story())
