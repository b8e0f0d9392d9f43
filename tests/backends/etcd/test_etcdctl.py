"""Together with `etcdctl lock`: exclusion, order and wake-up, in both directions."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import pytest

import locknut
from locknut import aio
from locknut.core.values import Mode
from tests.backends.etcd.conftest import PATIENCE, etcdctl_lock, eventually, line
from tests.servers.etcd import EtcdServer

pytestmark = pytest.mark.etcd
AT_ONCE = 5.0
"""A busy machine's share: a lease of `etcdctl` lasts a minute here, and ours ten seconds."""


@pytest.fixture(params=["etcd", "etcd35"])
def server(request: pytest.FixtureRequest) -> EtcdServer:
    found: EtcdServer = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def url(server: EtcdServer, path: str) -> str:
    return f"{server.url}/{path}"


def test_it_waits_for_us_and_is_woken(server: EtcdServer, url: str, path: str) -> None:
    """The second time for a key whose name was there before."""
    names: set[str] = set()
    with locknut.connect(url) as locks:
        for _ in range(2):
            lease = locks.lock("x").acquire()
            assert lease is not None
            (ours,) = line(server, path)
            names.add(ours)
            with etcdctl_lock(server, f"{path}/locknut/x") as other:
                eventually(lambda: len(line(server, path)) == 2, "it stands in line")
                assert [each.raw for each in locks.info("x").holders] == [lease.fence // 32]
                assert len(locks.info("x").waiters) == 1
                lease.release()
                began = time.monotonic()
                key = other.key()
                assert time.monotonic() - began < AT_ONCE
                assert key != ours
                assert line(server, path) == [key]
                other.let_go()
    assert len(names) == 1


def test_we_wait_for_it_and_are_woken(server: EtcdServer, url: str, path: str) -> None:
    with (
        locknut.connect(url) as locks,
        etcdctl_lock(server, f"{path}/locknut/x") as other,
    ):
        key = other.key()
        assert line(server, path) == [key]
        assert locks.lock("x").acquire(timeout=0) is None
        assert line(server, path) == [key], "who does not wait leaves nothing"
        (holder,) = locks.info("x").holders
        assert holder.mode is Mode.EXCLUSIVE
        assert locks.rwlock("x").read().acquire(timeout=0) is None
        got = threading.Event()

        def wait() -> None:
            with locks.lock("x", timeout=PATIENCE):
                got.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        eventually(lambda: len(line(server, path)) == 2, "we stand in line")
        assert not got.is_set()
        other.let_go()
        assert got.wait(AT_ONCE)
        waiter.join(PATIENCE)


def test_we_are_woken_on_a_loop(server: EtcdServer, url: str, path: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks:
            async with locks.lock("x"):
                pass  # and nobody else was there
            with etcdctl_lock(server, f"{path}/locknut/x") as other:
                await asyncio.to_thread(other.key)
                waiter = asyncio.create_task(locks.lock("x").acquire(timeout=PATIENCE))
                stands = partial(eventually, lambda: len(line(server, path)) == 2, "in line")
                await asyncio.to_thread(stands)
                await asyncio.to_thread(other.let_go)
                lease = await asyncio.wait_for(waiter, AT_ONCE)
                assert lease is not None
                await lease.release()

    asyncio.run(story())


def test_all_stand_in_one_line(server: EtcdServer, url: str, path: str) -> None:
    """Ours, theirs, ours: in the order in which they came."""
    order: list[str] = []
    with (
        locknut.connect(url) as holder,
        locknut.connect(url) as first,
        locknut.connect(url) as second,
    ):
        held = holder.lock("x").acquire()
        assert held is not None

        def wait(locks: locknut.Locks, who: str) -> None:
            with locks.lock("x", timeout=PATIENCE):
                order.append(who)

        before = threading.Thread(target=wait, args=(first, "before"))
        before.start()
        eventually(lambda: len(line(server, path)) == 2, "the first one waits")
        with etcdctl_lock(server, f"{path}/locknut/x") as other:
            eventually(lambda: len(line(server, path)) == 3, "etcdctl waits")
            after = threading.Thread(target=wait, args=(second, "after"))
            after.start()
            eventually(lambda: len(line(server, path)) == 4, "the last one waits")
            held.release()
            other.key()
            assert order == ["before"]
            other.let_go()
            for each in (before, after):
                each.join(PATIENCE)
    assert order == ["before", "after"]


def test_a_name_is_never_the_beginning_of_another(server: EtcdServer, url: str, path: str) -> None:
    with (
        locknut.connect(url) as locks,
        locks.lock("a"),
        locks.lock("a/b", timeout=0),
        locks.lock("a%2Fb", timeout=0),
    ):
        assert len(line(server, path, "a")) == 1
        assert len(line(server, path, "a%2Fb")) == 1


def test_a_hold_of_it_can_be_broken(server: EtcdServer, url: str, path: str) -> None:
    with locknut.connect(url) as locks, etcdctl_lock(server, f"{path}/locknut/x") as other:
        other.key()
        assert locks.force_release("x")
        with locks.lock("x", timeout=0):
            pass
