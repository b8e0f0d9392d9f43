"""Locks shared with python-redis-lock, in the layout of redis-py: both exclude, both wake."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import locknut
from tests.backends.redis.conftest import PATIENCE, eventually
from tests.servers.redis import RedisServer

redis_lock = pytest.importorskip("redis_lock")
pytestmark = pytest.mark.redis


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    redis_server.flushall()
    with redis.Redis(port=redis_server.port) as client:
        yield client
    redis_server.flushall()


@pytest.fixture
def locks(redis_server: RedisServer) -> Iterator[locknut.Locks]:
    with locknut.connect(f"{redis_server.url}?layout=redis-py", namespace="lock") as locks:
        yield locks


def test_each_keeps_the_other_out(client: Any, locks: locknut.Locks) -> None:
    theirs = redis_lock.Lock(client, "x", expire=20)
    with locks.lock("x", ttl=20):
        assert not theirs.acquire(blocking=False)
    assert theirs.acquire(blocking=False)
    assert locks.lock("x").acquire(blocking=False) is None
    theirs.release()


@pytest.mark.parametrize("how", ["release", "force_release"])
def test_its_waiters_are_woken(client: Any, locks: locknut.Locks, how: str) -> None:
    """They look for nothing else: without the signal they would sleep until their timeout."""
    lease = locks.lock("x", ttl=60).acquire()
    assert lease is not None
    got: list[bool] = []

    def wait() -> None:
        theirs = redis_lock.Lock(client, "x", expire=60)
        got.append(theirs.acquire(blocking=True, timeout=50))
        theirs.release()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    eventually(lambda: any(each["cmd"] == "blpop" for each in client.client_list()), "nobody waits")
    lease.release() if how == "release" else locks.force_release("x")
    waiter.join(PATIENCE)
    assert got == [True]


def test_the_signal_is_one_and_goes_by_itself(client: Any, locks: locknut.Locks) -> None:
    for _ in range(3):
        with locks.lock("x", ttl=20):
            pass
    assert client.llen("lock-signal:x") <= 1
    eventually(lambda: not client.exists("lock-signal:x"), "the signal stays")


def test_a_key_of_another_name_has_no_signal(redis_server: RedisServer, client: Any) -> None:
    url = f"{redis_server.url}?layout=redis-py"
    with locknut.connect(url) as locks, locks.lock("other", ttl=20):
        pass
    assert not client.keys("*signal*")
