"""A memcached that has no room left and evicts nothing (`-M`).

A command to store for which it finds no memory removes what stands under its key, whatever CAS id
the command names. So a full server is not safe; but whoever only waits must not be the one who
frees a lock.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import locknut
from locknut.core.values import Busy, Granted
from locknut.errors import BackendError
from tests.backends.memcached.conftest import claim, port, run
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.memcached, pytest.mark.faults]
SIZES = (2, 40, 70, 100, 140, 190, 250, 320)
"""Bytes: one of each class that a lock's item may be in, free or held."""


@pytest.fixture
def small() -> Iterator[MemcachedServer]:
    with MemcachedServer("-M", "-m", "2") as server:
        server.wait_until_old_enough()
        yield server


def fill(server: MemcachedServer) -> None:
    for size in SIZES:
        told, batches = "", 0
        while "out of memory" not in told:
            keys = [f"filler{size}-{batches}-{n}" for n in range(1000)]
            batch = [f"ms {key} {size} T0 q\r\n{'x' * size}" for key in keys]
            told, batches = server.ask("\r\n".join([*batch, "mn"]), b"MN\r\n"), batches + 1


def test_whoever_waits_removes_nothing(small: MemcachedServer) -> None:
    holder, waiter, mine = port(small.url), port(small.url), claim()
    assert isinstance(run(holder.attempt(mine, 0.0)), Granted)
    fill(small)
    for _ in range(3):
        assert isinstance(run(waiter.attempt(claim(), 0.0)), Busy)
    assert mine.id in small.ask("mg t:x v", b"\r\n")
    run(holder.close())
    run(waiter.close())


@pytest.mark.slow
def test_whoever_remembers_it_as_free_removes_nothing_either(small: MemcachedServer) -> None:
    """It would try the item that it knows, without a look; another client has the lock by now."""
    waiter, holder, before, mine = port(small.url), port(small.url), claim(), claim()
    assert isinstance(run(waiter.attempt(before, 0.0)), Granted)
    assert run(waiter.release(before))
    assert isinstance(run(holder.attempt(mine, 0.0)), Granted)
    fill(small)
    assert isinstance(run(waiter.attempt(claim(), 0.0)), Busy)
    assert mine.id in small.ask("mg t:x v", b"\r\n")
    run(holder.close())
    run(waiter.close())


@pytest.mark.slow
def test_a_new_lock_finds_no_room_and_that_is_said(small: MemcachedServer) -> None:
    fill(small)
    refused = pytest.raises(BackendError, match="give it more memory")
    with locknut.connect(small.url) as locks, refused:
        locks.lock("x", timeout=5).acquire()


@pytest.mark.slow
def test_a_holder_whose_renewal_finds_no_room_is_told(small: MemcachedServer) -> None:
    with locknut.connect(small.url) as locks:
        lease = locks.lock("x", ttl=6, timeout=30).acquire()
        assert lease
        fill(small)
        assert lease.lost.wait(30)
