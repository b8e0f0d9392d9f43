"""A forked child lets its parent's lease alone, in both colours."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

import locknut
from locknut import aio
from locknut.errors import NotHeld
from tests.backends.etcd.conftest import PATIENCE
from tests.forks.child import in_child

pytestmark = [pytest.mark.etcd, pytest.mark.faults]


def test_the_childs_lease_is_inert_and_the_parents_lives(url: str) -> None:
    with locknut.connect(url) as locks, locks.lock("x") as lease:

        def child() -> None:
            with pytest.raises(NotHeld):
                lease.release()
            for own in (locks, locknut.connect(url)):
                assert own.lock("x").acquire(timeout=0) is None
                with own.lock("y", timeout=0):
                    pass

        in_child(child)
        lease.renew()
        assert locks.info("x").locked


def test_a_loops_lease_survives_the_child(url: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks, locks.lock("x") as lease:

            def child() -> None:
                with pytest.raises(NotHeld):
                    lease.check()
                with locknut.connect(url) as own:
                    assert own.lock("x").acquire(timeout=0) is None

            in_child(child)
            for _ in range(3):
                await lease.renew()
            assert (await locks.info("x")).locked

    asyncio.run(story())


def test_the_child_does_not_keep_its_dead_parents_lock(url: str) -> None:
    """Nobody in it keeps the parent's lease alive."""
    short = f"{url}?session_ttl=3"
    told, tell = os.pipe()
    parent = os.fork()
    if parent == 0:  # the holder, which has a child of its own, and is killed
        try:
            locknut.connect(short).lock("x").acquire()
            if os.fork() == 0:
                os.write(tell, b"%d\n" % os.getpid())
            signal.pause()
        finally:
            os._exit(1)  # whatever is raised: it must not go on as a test
    child = int(os.read(told, 20))
    living = [parent, child]
    try:
        with locknut.connect(short) as locks:
            assert locks.lock("x").acquire(timeout=0) is None
            living.remove(parent)
            os.kill(parent, signal.SIGKILL)
            os.waitpid(parent, 0)
            with locks.lock("x", timeout=PATIENCE):
                pass
    finally:
        for each in living:
            os.kill(each, signal.SIGKILL)
        for end in (told, tell):
            os.close(end)
