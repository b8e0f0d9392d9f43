"""What becomes of a hold when its process ends, and of sessions that have nothing to say."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import locknut
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.session.conftest import by_session, connect
from tests.servers.databases import Database
from tests.servers.sql import SqlServer

pytestmark = pytest.mark.faults
HOLDER = Path(__file__).with_name("holder.py")
TTL = 8.0
IDLE = {
    "postgresql": "ALTER DATABASE {name} SET idle_session_timeout = '1s'",
    "mariadb": "SET GLOBAL wait_timeout = 1",
    "mysql": "SET GLOBAL wait_timeout = 1",
}


@contextmanager
def holding(database: Database, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, str(HOLDER), by_session(database), str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_one_that_ends_in_good_order_is_not_waited_for(database: Database) -> None:
    with (
        locknut.connect(by_session(database), namespace="t") as locks,
        holding(database, 0.0) as process,
    ):
        assert process.wait(60) == 0
        began = time.monotonic()
        with locks.lock("x", timeout=60):
            assert time.monotonic() - began < TTL / 2


@pytest.mark.slow
def test_one_that_is_killed_is_waited_for(database: Database) -> None:
    """The server sees a connection end, and cannot know that nobody is at work any more."""
    with locknut.connect(by_session(database), namespace="t") as locks:
        locks.ping()
        began = time.monotonic()
        with holding(database, 600.0) as process:
            granted = time.monotonic()
            process.kill()
            process.wait(60)
            with locks.lock("x", timeout=60):
                assert time.monotonic() - began >= TTL
                assert time.monotonic() - granted < TTL + 30


@pytest.mark.slow
def test_a_session_that_is_idle_is_not_ended(own_server: SqlServer, paint: Colour) -> None:
    async def story() -> None:
        database = own_server.database()
        own_server.ask(IDLE[own_server.scheme].format(name=database.name))
        locks, others = connect(paint, database), connect(paint, database)
        lease = await locks.lock("x", ttl=60).acquire()
        waiter = paint.spawn(lambda: others.lock("x").acquire(timeout=60))
        await paint.pause(4.0)
        assert lease.held
        await lease.renew()
        await lease.release()
        await (await waiter.result(60)).release()
        await locks.close()
        await others.close()

    paint.run(story())
