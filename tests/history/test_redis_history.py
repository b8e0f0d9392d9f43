"""History on Redis: a capped stream, and what becomes of locks when it hangs, fails or is full."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import locknut
from locknut.backends.redis.scripts import REMEMBER
from locknut.core import pacing, recording
from locknut.testing.proxy import Connection, FaultProxy
from tests.history.looking import eventually, kinds
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
STREAM = "locknut:history:routine"


@pytest.fixture(scope="module")
def private() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(private: RedisServer, monkeypatch: pytest.MonkeyPatch) -> RedisServer:
    monkeypatch.setattr(recording, "PAUSE", 0.05)
    monkeypatch.setattr(recording, "RETRY_FIRST", 0.05)
    private.flushall()
    return private


EACH_ONCE = [(kind, name) for name in ("first", "second") for kind in ("granted", "released")]


def use(locks: locknut.Locks, name: str) -> None:
    with locks.lock(name):
        pass


def writer_of(server: RedisServer, proxy: FaultProxy) -> Connection:
    """The connection that the history was written by. The first time, the name of the script is not
    enough: what is disturbed then is the script itself, and its name does not come again.
    """
    eventually(lambda: server.ask("XLEN", STREAM))
    (found,) = [each for each in proxy.connections if each.requests.seen(REMEMBER.sha)]
    return found


def test_a_writer_that_hangs_delays_neither_acquires_nor_renewals(
    server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "FLUSH", 0.2)
    with FaultProxy((server.host, server.port)) as proxy:
        locks = locknut.connect(server.url_through(proxy.port), history=50)
        lease = locks.lock("kept", ttl=6.0).acquire()
        assert lease is not None
        writer = writer_of(server, proxy)
        writer.requests.swallow()
        proxy.requests.forget()
        for number in range(100):
            use(locks, f"{number}")
        renewed = lease.remaining
        writer.requests.wait_for(REMEMBER.sha)
        eventually(lambda: lease.remaining > renewed)
        lease.check()
        lease.release()
        locks.close()


def test_a_reply_that_is_lost_makes_no_double(server: RedisServer) -> None:
    with (
        FaultProxy((server.host, server.port)) as proxy,
        locknut.connect(server.url_through(proxy.port), history=50) as locks,
    ):
        use(locks, "first")
        writer = writer_of(server, proxy)
        writer.replies.cut_after(0)
        use(locks, "second")
        eventually(lambda: server.ask("XLEN", STREAM) > len(EACH_ONCE))  # type: ignore[operator]
        eventually(lambda: kinds(locks.history()) == EACH_ONCE)


def test_a_full_server_fails_no_lock_that_is_held(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "locknut"),
        locknut.connect(server.url, history=50) as locks,
    ):
        lease = locks.lock("kept", ttl=3.0).acquire()
        assert lease is not None
        server.ask("CONFIG", "SET", "maxmemory", "1")
        try:
            lease.release()
            eventually(lambda: "history cannot be written" in caplog.text)
        finally:
            server.ask("CONFIG", "SET", "maxmemory", "0")
        eventually(lambda: ("released", "kept") in kinds(locks.history()))


def test_another_key_of_that_name_harms_nobody(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.ask("SET", STREAM, "mine")
    with (
        caplog.at_level(logging.WARNING, "locknut"),
        locknut.connect(server.url, history=50) as locks,
    ):
        use(locks, "x")
        eventually(lambda: "WRONGTYPE" in caplog.text)
        use(locks, "y")
        with pytest.raises(locknut.BackendError):
            locks.history()
    assert server.ask("GET", STREAM) == b"mine"


def test_an_engine_that_restarts_empty_has_no_history(server: RedisServer) -> None:
    with locknut.connect(server.url, history=50) as locks:
        use(locks, "before")
        eventually(locks.history)
        server.restart(keep_data=False)
        eventually(lambda: _usable(locks))
        eventually(lambda: ("granted", "after") in kinds(locks.history()))
        assert ("granted", "before") not in kinds(locks.history())


def _usable(locks: locknut.Locks) -> bool:
    try:
        use(locks, "after")
    except locknut.BackendError:
        return False
    return True


def test_a_stream_that_nobody_writes_to_goes_away(server: RedisServer) -> None:
    with locknut.connect(server.url, history=50) as locks:
        use(locks, "x")
    left = server.ask("PTTL", STREAM)
    assert isinstance(left, int)
    assert 29 * 86400_000 < left <= 30 * 86400_000


def test_locks_are_listed_without_it(server: RedisServer) -> None:
    with locknut.connect(server.url, history=50) as locks:
        use(locks, "x")
        eventually(locks.history)
        assert locks.list() == []
        with locks.lock("history:routine"):
            assert [each.name for each in locks.list()] == ["history:routine"]
