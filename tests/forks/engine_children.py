"""What every engine with connections promises about a forked child, told once."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.errors import NotHeld
from tests.forks.child import in_child


def the_childs_lease_is_inert(url: str, ttl: float | None = None, **options: Any) -> None:
    """What the parent holds the child can neither release nor enter. It has a connection of its
    own, and the parent's goes on.
    """
    with locknut.connect(url, **options) as locks, locks.lock("x", ttl=ttl) as lease:

        def child() -> None:
            with pytest.raises(NotHeld):
                lease.release()
            for own in (locks, locknut.connect(url, **options)):
                assert own.lock("x").acquire(timeout=0) is None
                with own.lock("y", timeout=0):
                    pass

        in_child(child)
        lease.renew()
        assert locks.info("x").locked


def a_loop_survives_the_child(url: str, **options: Any) -> None:
    """The same for the connections of a loop, which the child does not have."""

    async def story() -> None:
        async with aio.connect(url, **options) as locks, locks.lock("x") as lease:

            def child() -> None:
                with pytest.raises(NotHeld):
                    lease.check()
                with locknut.connect(url, **options) as own:
                    assert own.lock("x").acquire(timeout=0) is None

            in_child(child)
            for _ in range(3):
                await lease.renew()
            assert (await locks.info("x")).locked

    asyncio.run(story())


def a_dead_parents_lock_is_free(url: str, patience: float) -> None:
    """A child that outlives its parent keeps nothing of it: its lock is free after a while."""
    told, tell = os.pipe()
    parent = os.fork()
    if parent == 0:  # the holder, which has a child of its own, and is killed
        try:
            locknut.connect(url).lock("x").acquire()
            if os.fork() == 0:
                os.write(tell, b"%d\n" % os.getpid())
            signal.pause()
        finally:
            os._exit(1)  # whatever is raised: it must not go on as a test
    child = int(os.read(told, 20))
    living = [parent, child]
    try:
        with locknut.connect(url) as locks:
            assert locks.lock("x").acquire(timeout=0) is None
            living.remove(parent)
            os.kill(parent, signal.SIGKILL)
            os.waitpid(parent, 0)
            with locks.lock("x", timeout=patience):
                pass
    finally:
        for each in living:
            os.kill(each, signal.SIGKILL)
        for end in (told, tell):
            os.close(end)
