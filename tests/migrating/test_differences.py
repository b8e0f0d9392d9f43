"""What the pages say that others do, and we do not, is so: shown with the real libraries."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import portalocker
import pottery
import pytest
import redis
import redis_lock  # type: ignore[import-untyped]
import sherlock
from tooz import coordination

import locknut
from tests.migrating.peers import LONG, in_a_thread
from tests.servers.redis import RedisServer


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis.Redis(port=redis_server.port) as client:
        yield client


@pytest.fixture
def locks(redis_server: RedisServer) -> Iterator[locknut.Locks]:
    with locknut.connect(redis_server.url) as locks:
        yield locks


@pytest.fixture
def name() -> str:
    return f"report-{secrets.token_hex(4)}"


@pytest.mark.redis
def test_pottery_counts_extensions_and_raises_errors_of_its_own(client: Any, name: str) -> None:
    held = pottery.Redlock(key=name, masters={client}, auto_release_time=LONG)
    with held:
        for _ in range(3):
            held.extend()
        with pytest.raises(pottery.TooManyExtensions):
            held.extend()
        busy = pottery.Redlock(key=name, masters={client}, context_manager_timeout=0.01)
        with pytest.raises(pottery.QuorumNotAchieved), busy:
            pass
        assert held.locked() > LONG / 2
    with pytest.raises(pottery.ReleaseUnlockedLock):
        held.release()


@pytest.mark.redis
def test_sherlock_raises_where_we_return_none(client: Any, locks: locknut.Locks, name: str) -> None:
    with locks.lock(name):
        told = sherlock.RedisLock(name, client=client, expire=LONG, timeout=0.01)
        other = sherlock.RedisLock(name, client=client, expire=LONG, timeout=0.01)
        assert told.acquire()
        with pytest.raises(sherlock.LockTimeoutException):
            other.acquire()
        told.release()
        with in_a_thread(lambda: locks.lock(name).acquire(timeout=0.01)) as got:
            assert got() is None


@pytest.mark.redis
def test_sherlock_without_an_expiry_lets_everybody_in(client: Any, name: str) -> None:
    first = sherlock.RedisLock(name, client=client, expire=None)
    second = sherlock.RedisLock(name, client=client, expire=None)
    assert first.acquire(blocking=False)
    assert second.acquire(blocking=False)
    for each in (first, second):
        with pytest.raises(sherlock.LockException):
            each.release()
        each._owner = None  # or its __del__ would try again, and fail where nobody sees it


@pytest.mark.redis
def test_python_redis_lock_says_so_at_its_release(client: Any, name: str) -> None:
    theirs = redis_lock.Lock(client, name, expire=LONG)
    assert theirs.acquire()
    client.delete(f"lock:{name}")
    with pytest.raises(redis_lock.NotAcquired):
        theirs.release()


def test_tooz_raises_when_with_is_refused(tmp_path: Path) -> None:
    coordinator = coordination.get_coordinator(f"file://{tmp_path}", b"worker-3")
    coordinator.start()
    with coordinator.get_lock(b"x"):
        other = coordinator.get_lock(b"x")
        with pytest.raises(coordination.LockAcquireFailed), other(blocking=False):
            pass
    coordinator.stop()


def test_portalocker_waits_for_five_seconds_by_default_and_gives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "report.lock"
    assert portalocker.Lock(path).timeout == 5
    with portalocker.Lock(path) as file:
        assert file.writable()
        with pytest.raises(portalocker.AlreadyLocked):
            portalocker.Lock(path, fail_when_locked=True).acquire()
