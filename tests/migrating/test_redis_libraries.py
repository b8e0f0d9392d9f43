"""Locks in Redis of pottery, sherlock and tooz beside ours: where they exclude each other, and
where they do not.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import portalocker
import pottery
import pytest
import redis
import sherlock
from tooz import coordination

import locknut
from tests.migrating.peers import LONG, PATIENCE, Peer, in_a_thread
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
Make = Callable[[str], Peer]


@pytest.fixture
def client(redis_server: RedisServer) -> Iterator[Any]:
    with redis.Redis(port=redis_server.port) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"report-{secrets.token_hex(4)}"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def redlock(name: str, *masters: Any) -> Peer:
    theirs = pottery.Redlock(key=name, masters=set(masters), auto_release_time=LONG)
    return Peer(
        lambda: theirs.acquire(blocking=False),
        lambda: theirs.acquire(timeout=PATIENCE),
        theirs.release,
    )


def of_sherlock(name: str, client: Any) -> Peer:
    options = {"client": client, "namespace": "shop", "expire": LONG, "timeout": PATIENCE}
    theirs = sherlock.RedisLock(name, **options)
    return Peer(lambda: theirs.acquire(blocking=False), theirs.acquire, theirs.release)


def of_tooz(name: str, server: RedisServer, stack: ExitStack) -> Peer:
    url = f"redis://127.0.0.1:{server.port}?lock_timeout={LONG}"
    coordinator = coordination.get_coordinator(url, b"worker-3")
    coordinator.start()
    stack.callback(coordinator.stop)
    theirs = coordinator.get_lock(name.encode())
    return Peer(
        lambda: theirs.acquire(blocking=False),
        lambda: theirs.acquire(timeout=int(PATIENCE)),
        theirs.release,
    )


@pytest.fixture(params=["pottery", "sherlock", "tooz"])
def pair(
    request: pytest.FixtureRequest,
    client: Any,
    redis_server: RedisServer,
    name: str,
    stack: ExitStack,
) -> tuple[Peer, locknut.Lock]:
    """Their lock and ours, as the pages write them."""
    url = f"{redis_server.url}?layout=redis-py"
    if request.param == "pottery":
        theirs, ours = redlock(name, client), (f"{url}&namespace=redlock", name)
    elif request.param == "sherlock":
        theirs, ours = of_sherlock(name, client), (url, f"shop_{name}")
    else:
        theirs, ours = of_tooz(name, redis_server, stack), (url, f"_tooz_{name}_lock")
    locks = stack.enter_context(locknut.connect(ours[0]))
    return theirs, locks.lock(ours[1], ttl=60)


def test_each_keeps_the_other_out(pair: tuple[Peer, locknut.Lock]) -> None:
    theirs, ours = pair
    with ours:
        assert not theirs.attempt()
    assert theirs.attempt()
    assert ours.acquire(blocking=False) is None
    theirs.release()
    with ours:
        pass


def test_it_gets_in_after_us(pair: tuple[Peer, locknut.Lock]) -> None:
    theirs, ours = pair
    assert ours.acquire()
    assert not theirs.attempt()
    with in_a_thread(theirs.wait) as got:
        ours.release()
        assert got()
    assert ours.acquire(blocking=False) is None
    theirs.release()


def test_we_get_in_after_it(pair: tuple[Peer, locknut.Lock]) -> None:
    theirs, ours = pair
    assert theirs.attempt()
    with in_a_thread(lambda: entered(ours)) as got:
        theirs.release()
        assert got()


def entered(lock: Any) -> bool:
    with lock:
        return True


class TestSeveralMasters:
    """What pottery is made for: a majority of independent servers."""

    @pytest.fixture
    def servers(self, redis_server: RedisServer, stack: ExitStack) -> list[RedisServer]:
        return [redis_server, *(stack.enter_context(RedisServer()) for _ in range(2))]

    @pytest.fixture
    def masters(self, servers: list[RedisServer], stack: ExitStack) -> list[Any]:
        return [stack.enter_context(redis.Redis(port=each.port)) for each in servers]

    def test_all_of_its_keys_exclude_its_majority(
        self, servers: list[RedisServer], masters: list[Any], stack: ExitStack, name: str
    ) -> None:
        theirs = redlock(name, *masters)
        urls = [f"{each.url}?layout=redis-py&namespace=redlock" for each in servers]
        each_of_us = [stack.enter_context(locknut.connect(url)) for url in urls]
        with locknut.all_of(*(locks.lock(name, ttl=60) for locks in each_of_us)):
            assert not theirs.attempt()
        assert theirs.attempt()
        ours = locknut.all_of(*(locks.lock(name, ttl=60) for locks in each_of_us), timeout=0.1)
        with pytest.raises(locknut.AcquireTimeout):
            entered(ours)
        theirs.release()
        with ours:
            pass

    def test_our_own_redlock_does_not(
        self, servers: list[RedisServer], masters: list[Any], name: str
    ) -> None:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in servers)
        with locknut.connect(f"redlock://{hosts}?durable=true") as locks, locks.lock(name):
            theirs = redlock(name, *masters)
            assert theirs.attempt()
            theirs.release()


def test_in_our_own_layout_nobody_is_excluded(
    client: Any, redis_server: RedisServer, name: str, stack: ExitStack
) -> None:
    with locknut.connect(redis_server.url) as locks, locks.lock(name):
        for theirs in (
            redlock(name, client),
            of_sherlock(name, client),
            of_tooz(name, redis_server, stack),
        ):
            assert theirs.attempt()
            theirs.release()


@pytest.mark.parametrize("layout", ["", "?layout=redis-py", "?layout=redisson"])
def test_portalockers_has_no_key_to_share(
    client: Any, redis_server: RedisServer, name: str, layout: str
) -> None:
    theirs = portalocker.RedisLock(name, connection=client, timeout=PATIENCE)
    with locknut.connect(f"{redis_server.url}{layout}") as locks, locks.lock(name), theirs:
        pass
