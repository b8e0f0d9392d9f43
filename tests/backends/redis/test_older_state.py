"""A server that comes back with older data, or whose clock was set: fences still grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Thread

import pytest
import redis

import locknut
from locknut import Locks
from locknut.errors import StaleFence
from locknut.guards.redis import RedisGuard
from tests.backends.redis.conftest import eventually
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]


def alone(locks: Locks) -> list[int]:
    with locks.lock("job", timeout=5) as lease:
        return [lease.fence]


def several(locks: Locks) -> list[int]:
    with locks.all("job", "more", timeout=5) as leases:
        return list(leases.fences.values())


def shared(locks: Locks) -> list[int]:
    with locks.rwlock("job", timeout=5).read() as lease:
        return [lease.fence]


def permit(locks: Locks) -> list[int]:
    with locks.semaphore("job", 2, timeout=5) as lease:
        return [lease.fence]


def in_line(locks: Locks) -> list[int]:
    """Granted by somebody's release."""
    found: list[int] = []
    holder = locks.lock("job", fair=True).acquire(timeout=5)
    assert holder is not None

    def wait() -> None:
        with locks.lock("job", fair=True, timeout=5) as lease:
            found.append(lease.fence)

    waiter = Thread(target=wait)
    waiter.start()
    eventually(lambda: locks.info("job").waiters, "nobody waits")
    holder.release()
    waiter.join()
    return found


WAYS = pytest.mark.parametrize("way", [alone, several, shared, permit, in_line])
LAYOUTS = pytest.mark.parametrize("layout", ["", "?layout=redis-py"])
Way = Callable[[Locks], list[int]]


class Pair:
    """A master, and a replica that can be cut off from it."""

    def __init__(self, master: RedisServer, replica: RedisServer) -> None:
        self.master, self.replica = master, replica

    def join(self) -> None:
        self.replica.ask("REPLICAOF", self.master.host, self.master.port)
        self.master.wait_for_replicas(1)

    def cut(self) -> None:
        """From now on the replica lags behind; it is still a replica, of nobody."""
        self.replica.ask("REPLICAOF", self.replica.host, 1)

    def promote(self) -> None:
        self.replica.ask("REPLICAOF", "NO", "ONE")


@pytest.fixture(scope="module")
def running() -> Iterator[Pair]:
    with RedisServer() as master, RedisServer() as replica:
        yield Pair(master, replica)


@pytest.fixture
def pair(running: Pair) -> Pair:
    running.promote()
    running.master.flushall()
    running.join()
    return running


def fences(url: str, way: Way, times: int = 1) -> list[int]:
    with locknut.connect(url) as locks:
        return [fence for _ in range(times) for fence in way(locks)]


@WAYS
def test_after_a_failover_to_a_replica_that_lags(pair: Pair, way: Way) -> None:
    fences(pair.master.url, way)
    pair.master.wait_for_replicas(1)
    pair.cut()
    lost = fences(pair.master.url, way, 3)
    pair.promote()
    assert min(fences(pair.replica.url, way)) > max(lost)


@LAYOUTS
def test_after_that_failover_the_guard_refuses_the_former_holder(pair: Pair, layout: str) -> None:
    old, new = (server.url + layout for server in (pair.master, pair.replica))
    with locknut.connect(old) as ours, locknut.connect(new) as theirs:
        alone(ours)
        pair.master.wait_for_replicas(1)
        pair.cut()
        former = ours.lock("job").acquire()
        assert former is not None
        pair.promote()
        with redis.Redis(port=pair.replica.port) as data, theirs.lock("job") as lease:
            before = RedisGuard(data, "stock").enter(former)
            now = RedisGuard(data, "stock").enter(lease)
            with pytest.raises(StaleFence):
                before.run("SET", "stock", "by the former holder")
            now.run("SET", "stock", "by the holder")
        former.release()


@WAYS
def test_after_a_restart_from_a_snapshot(way: Way) -> None:
    with RedisServer() as server:
        fences(server.url, way)
        server.ask("SAVE")
        lost = fences(server.url, way, 3)
        server.kill()
        server.start()
        assert min(fences(server.url, way)) > max(lost)


@pytest.mark.parametrize("how", ["joined", "attached"])
def test_a_hold_that_had_ended_is_back_with_its_number(how: str) -> None:
    """For the rest of its ttl; the guard of a resource that has seen a later one refuses it."""
    with RedisServer() as server, locknut.connect(server.url) as locks:
        lease = locks.lock("job", ttl=600, owner="ann").acquire(timeout=5)
        assert lease is not None
        text = lease.detach() if how == "attached" else ""
        server.ask("SAVE")
        locks.attach(text).release() if how == "attached" else lease.release()
        (later,) = alone(locks)
        server.kill()
        server.start()
        with locknut.connect(server.url) as others:
            assert others.lock("job").acquire(timeout=0) is None
            mine = others.lock("job", owner="ann").acquire(timeout=0) if not text else None
            mine = others.attach(text) if text else mine
            assert mine is not None
            assert mine.fence == lease.fence < later
            assert others.force_release("job")


def test_a_restart_from_a_snapshot_in_the_layout_of_redis_py() -> None:
    with RedisServer() as server:
        url = f"{server.url}?layout=redis-py"
        fences(url, alone)
        server.ask("SAVE")
        lost = fences(url, alone, 3)
        server.kill()
        server.start()
        assert min(fences(url, alone)) > max(lost)


def test_a_number_that_the_clock_has_passed_stays_for_an_hour(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        with locks.lock("x", ttl=20):
            pass
        assert 3_600_000 < left(server, "t:{x}:fence") <= 3_620_000
        with locks.lock("x", ttl=30 * 86_400, auto_renew=False):
            assert left(server, "t:{x}:fence") > left(server, "t:{x}"), "it tells the hold's number"
        server.ask("DEL", "t:{x}:fence")


def left(server: RedisServer, key: str) -> int:
    found = server.ask("PTTL", key)
    assert isinstance(found, int)
    return found
