"""What our Lock with redis-py's signature has beyond it, what it refuses, and both in one crowd."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError

import locknut
from locknut.compat.redis_py import Lock
from locknut.drivers.redis.connections import Connection
from tests.backends.redis.test_faults import Losses
from tests.compat.kits import KINDS, Kit
from tests.servers.processes import PATIENCE, until
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> Losses:
    return Losses(monkeypatch)


def test_each_hold_has_a_greater_fence(our_kit: Kit) -> None:
    lock, fences = our_kit.lock(timeout=60, thread_local=False), list[int]()
    for _ in range(3):
        with lock:
            fences.append(lock.lease.fence)
    assert fences == sorted(set(fences))
    assert lock.lease is None


def test_a_loss_is_told(our_kit: Kit) -> None:
    """Where redis-py says nothing before the release."""
    lock, told = our_kit.lock(timeout=0.5, thread_local=False), threading.Event()
    assert lock.acquire()
    lock.lease.on_lost(lambda lease: told.set())
    assert told.wait(PATIENCE)
    assert not lock.lease.held


def test_without_a_timeout_a_hold_is_renewed_and_not_for_ever(our_kit: Kit) -> None:
    """redis-py's would stand there until somebody deletes it."""
    lock = our_kit.lock(thread_local=False)
    assert lock.acquire()
    assert 0 < our_kit.left() <= 30_000
    assert lock.lease._hold.options.auto_renew
    del lock
    gc.collect()
    until(lambda: our_kit.left() == -2, "what nobody has any more is given back")


def test_a_waiter_of_ours_is_woken(our_kit: Kit) -> None:
    """`sleep` means nothing: with an hour of it redis-py would not look again in time."""
    holder, waiter = (our_kit.lock(600, 3600, thread_local=False) for _ in "ab")
    assert holder.acquire()
    thread = threading.Thread(target=waiter.acquire)
    thread.start()
    holder.release()
    thread.join(PATIENCE)
    assert waiter.owned()
    waiter.release()


def test_a_hold_goes_to_another_process(our_kit: Kit, redis_server: RedisServer) -> None:
    lock = our_kit.lock(timeout=60, thread_local=False)
    assert lock.acquire()
    fence = lock.lease.fence
    text = our_kit.detached(lock)
    with locknut.connect(f"{redis_server.url}?layout=redis-py") as locks:
        lease = locks.attach(text)
        assert lease.fence == fence
        lease.release()
    assert our_kit.left() == -2


def test_what_is_refused(our_kit: Kit) -> None:
    with pytest.raises(locknut.Unsupported, match="detach"):
        our_kit.lock(timeout=60).acquire(token="mine")
    for timeout in (0.01, 31 * 86400):
        with pytest.raises(locknut.ConfigurationError, match="timeout must be between 100 ms and"):
            our_kit.lock(timeout=timeout)
    with pytest.raises(locknut.ConfigurationError, match="UTF-8"):
        our_kit.lock_class(our_kit.client, b"\xff")
    lock = our_kit.lock(timeout=60)
    with lock, pytest.raises(locknut.ConfigurationError, match="would last for"):
        lock.extend(-100)


class OnACluster:
    """As much of a cluster's client as is looked at."""

    nodes_manager = None


@pytest.mark.parametrize("kind", ["locknut", "locknut-asyncio"])
def test_a_cluster_is_refused(kind: str) -> None:
    with pytest.raises(locknut.Unsupported, match="cluster"):
        KINDS[kind](OnACluster(), "x")


def test_many_clients_of_one_pool_share_what_keeps_the_locks(redis_server: RedisServer) -> None:
    """As in a program that makes a client for each request."""
    pool = redis.ConnectionPool(host=redis_server.host, port=redis_server.port)
    locks = [Lock(redis.Redis(connection_pool=pool), "shared pool", timeout=60) for _ in range(3)]
    clients = set()
    for lock in locks:
        with lock:
            clients.add(lock.lease._client)
    assert len(clients) == 1
    pool.close()


def test_a_shorter_time_whose_answer_is_lost_is_believed(
    redis_server: RedisServer, losses: Losses
) -> None:
    """It may have been applied, or may be later: after it nobody may believe in more."""
    with redis.Redis(host=redis_server.host, port=redis_server.port) as client:
        lock = Lock(client, "shortened", timeout=600)
        assert lock.acquire()
        losses.left = 1
        with pytest.raises(RedisConnectionError):
            lock.extend(50, replace_ttl=True)
        assert lock.lease.remaining < 50
        lock.extend(900, replace_ttl=True)
        assert lock.lease.remaining < 50, "the lost command may still be on its way"
        lock.release()


def test_a_longer_time_whose_answer_is_lost_is_not(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with redis.Redis(host=redis_server.host, port=redis_server.port) as client:
        lock = Lock(client, "lengthened", timeout=100)
        assert lock.acquire()
        sent = Connection.send_many

        def lose(connection: Connection, packed: Any) -> Any:
            sent(connection, packed)
            raise ConnectionResetError("lost on the way")

        with monkeypatch.context() as patch:
            patch.setattr(Connection, "send_many", lose)
            with pytest.raises(RedisConnectionError):
                lock.extend(600)
        assert lock.lease.remaining < 100
        assert lock.extend(300, replace_ttl=True)
        assert 200 < lock.lease.remaining < 300
        lock.release()


def test_both_libraries_in_one_crowd(redis_server: RedisServer) -> None:
    """A counter that is read and written in two steps: no step of anybody gets lost."""
    with redis.Redis(host=redis_server.host, port=redis_server.port) as client:
        client.set("crowd:count", 0)

        def work(kind: Any) -> None:
            lock = kind(client, "crowd", timeout=60, sleep=0.005)
            for _ in range(15):
                with lock:
                    client.set("crowd:count", int(client.get("crowd:count") or 0) + 1)

        kinds = [KINDS["redis-py"], Lock] * 3
        threads = [threading.Thread(target=work, args=(each,)) for each in kinds]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert int(client.get("crowd:count") or 0) == 15 * len(threads)
