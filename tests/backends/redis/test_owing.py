"""A wait that ends by its timeout: its connection is used again once the late answer has come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

import pytest

import locknut
from locknut.drivers.redis import wire
from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.endpoints import FixedEndpoint
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.settings import read
from locknut.urls import parse
from tests.backends.redis.conftest import eventually
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
PING = wire.pack(b"PING")


def connections(server: RedisServer) -> int:
    """How many were made up to now, this one included."""
    return int(server.info("stats")["total_connections_received"])


@pytest.mark.parametrize("layout", ["", "?layout=redisson", "?layout=redis-py"])
@pytest.mark.parametrize("timeout", [0.02, 0.12])
@pytest.mark.slow
def test_waits_that_time_out_need_few_connections(
    server: RedisServer, layout: str, timeout: float
) -> None:
    """On a server with nothing else to do, where the end of each comes late."""
    url = server.url + layout
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        with locks.lock("x"):
            before = connections(server)
            for _ in range(30):
                assert others.lock("x").acquire(timeout=timeout) is None
            assert connections(server) - before < 12
        with others.lock("x", timeout=20):
            pass
    server.flushall()  # the fences of other layouts


@pytest.fixture
def pool(server: RedisServer) -> Iterator[Pool]:
    pool = Pool(FixedEndpoint(read(parse(f"{server.url}?socket_timeout=1"))))
    yield pool
    pool.close()


def leave_asleep(pool: Pool, seconds: float) -> int:
    """Somebody sleeps for so long, and leaves before that; the number of its connection."""
    with pool.lent() as connection:
        sleep = wire.pack(b"BLPOP", b"nothing", b"%.3f" % seconds)
        assert connection.send_within(sleep, 0.0) is wire.NOTHING
        connection.owes = lambda _: True
        return connection.fileno()


def test_it_is_used_again_when_its_answer_has_come(pool: Pool) -> None:
    late = leave_asleep(pool, 0.1)
    taken = [pool.take()]
    assert taken[0].fileno() != late

    def settled() -> bool:
        taken.append(pool.take())
        assert taken[-1].send(PING) == b"PONG", "a late answer was taken for another's"
        return taken[-1].fileno() == late

    eventually(settled, "its connection is not used again")
    for connection in taken:
        pool.give_back(connection)


def test_it_is_closed_when_its_answer_does_not_come(pool: Pool) -> None:
    leave_asleep(pool, 600)
    assert len(pool._owed) == 1
    time.sleep(pool.settings.limit)
    with pool.lent() as first, pool.lent():
        assert first.send(PING) == b"PONG"
    assert len(pool._owed) == 0


def test_it_is_closed_when_the_server_hangs_up(pool: Pool, server: RedisServer) -> None:
    leave_asleep(pool, 600)
    server.client_kill()

    def forgotten() -> bool:
        with pool.lent() as first, pool.lent():
            assert first.send(PING) == b"PONG"
        return not pool._owed

    eventually(forgotten, "a connection that was cut is kept")


def test_closing_closes_it(pool: Pool, server: RedisServer) -> None:
    leave_asleep(pool, 600)
    pool.close()
    assert len(pool._owed) == 0
    eventually(lambda: b"cmd=blpop" not in server.ask("CLIENT", "LIST"), "somebody sleeps there")  # type: ignore[operator]


class Hasty(deque[tuple[Connection, float]]):
    """Another thread takes the last one out between the look and the grip."""

    def popleft(self) -> tuple[Connection, float]:
        if len(self) == 1:
            super().popleft()[0].close()
        return super().popleft()


def test_two_threads_may_leave_the_server_at_once(pool: Pool) -> None:
    """Both forget what is owed; the second one got an IndexError in place of its answer."""
    leave_asleep(pool, 0.5)
    hasty = Hasty(pool._owed._connections)
    pool._owed._connections = hasty
    pool.forget()
    assert not hasty


def test_a_connection_that_another_thread_closes_is_not_alive(pool: Pool) -> None:
    """It could be closed while it was looked at, which raised ValueError."""
    with pool.lent() as connection:
        connection.send(PING)
        fileno = connection.fileno()

        class Closing:
            """The number is asked for twice: it is closed in between."""

            def __init__(self) -> None:
                self.asked = 0

            def fileno(self) -> int:
                self.asked += 1
                return fileno if self.asked == 1 else -1

        real, connection._socket = connection._socket, Closing()  # type: ignore[assignment]
        try:
            connection.alive()
            assert not connection.alive()
        finally:
            connection._socket = real
