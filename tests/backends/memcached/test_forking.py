"""Locks made before a fork work after it, and a child lets its parent's holds alone."""

from __future__ import annotations

import asyncio
import os
import secrets

import pytest

import locknut
from locknut import aio
from locknut.errors import NotHeld
from tests.forks.child import in_child, sockets
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.memcached, pytest.mark.faults]
PATIENCE = 30.0


@pytest.fixture
def url(memcached_server: MemcachedServer) -> str:
    return f"{memcached_server.url}?namespace={secrets.token_hex(8)}"


def test_a_child_has_locks_of_its_own_and_the_parents_live_on(url: str) -> None:
    before = sockets()
    with locknut.connect(url) as locks, locks.lock("x", timeout=PATIENCE) as lease:
        known = locks.lock("y", timeout=PATIENCE)
        with known:
            pass  # the parent knows by which CAS id it is free
        lease.renew()
        ours = sockets() - before

        def child() -> None:
            assert not ours & sockets(), "the parent's connections are not used here"
            with pytest.raises(NotHeld):
                lease.release()
            for own in (locks, locknut.connect(url)):
                assert own.lock("x").acquire(blocking=False) is None
                with own.lock("y", timeout=PATIENCE):
                    (holder,) = own.info("y").holders
                    assert holder.pid == os.getpid()

        in_child(child)
        assert ours, "nothing was looked at"
        lease.renew()
        with known:  # the child has changed it: its CAS id is another
            (holder,) = locks.info("y").holders
            assert holder.pid == os.getpid()


def test_a_loops_hold_survives_the_child(url: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks, locks.lock("x", timeout=PATIENCE) as lease:

            def child() -> None:
                with pytest.raises(NotHeld):
                    lease.check()
                with locknut.connect(url) as own:
                    assert own.lock("x").acquire(blocking=False) is None

            in_child(child)
            for _ in range(3):
                await lease.renew()
            assert (await locks.info("x")).locked

    asyncio.run(story())
