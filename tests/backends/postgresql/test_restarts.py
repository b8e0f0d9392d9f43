"""The server is killed, stopped, or cuts connections: locks are neither lost nor left behind."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from locknut.errors import AcquireTimeout, BackendUnavailable
from locknut.testing.conformance.colours import Colour
from tests.backends.postgresql.conftest import BUSY, connect, listens, until
from tests.servers.databases import Database
from tests.servers.postgresql import PostgresServer

pytestmark = [pytest.mark.postgresql, pytest.mark.faults]


def test_a_hold_survives_a_server_that_is_killed_and_restarted(
    own_server: PostgresServer, own_database: Database, paint: Colour
) -> None:
    async def story() -> None:
        locks, others = connect(paint, own_database.url), connect(paint, own_database.url)
        lease = await locks.lock("x", ttl=60).acquire()
        own_server.restart(keep_data=True)
        assert await others.lock("x").acquire(timeout=0) is None
        await lease.renew()
        await lease.release()
        later = await others.lock("x").acquire(timeout=20)
        assert later.fence > lease.fence
        await later.release()
        await locks.close()
        await others.close()

    paint.run(story())


def test_every_connection_is_cut(database: Database, paint: Colour) -> None:
    """Idle ones are noticed before they are used, so nobody sees an error."""

    async def story() -> None:
        locks = connect(paint, database.url)
        lease = await locks.lock("x").acquire()
        assert database.server.end_sessions()
        await paint.pause(0.05)
        await lease.renew()
        assert database.server.end_sessions()
        await paint.pause(0.05)
        await lease.release()
        assert await locks.lock("x").acquire(timeout=0) is not None
        await locks.close()

    paint.run(story())


@pytest.mark.parametrize("timeout", [0.1, 1.0])
@pytest.mark.parametrize("warm", [True, False])
def test_a_timeout_is_kept_though_the_server_hangs(
    own_server: PostgresServer, own_database: Database, paint: Colour, timeout: float, warm: bool
) -> None:
    async def story() -> None:
        locks = connect(paint, own_database.url)
        if warm:
            async with locks.lock("warm"):
                pass
        own_server.stop()
        try:
            began = time.monotonic()
            with suppress(BackendUnavailable, AcquireTimeout):
                assert await locks.lock("x").acquire(timeout=timeout) is None
            assert time.monotonic() - began < timeout + BUSY
        finally:
            own_server.cont()
        async with locks.lock("x", timeout=30):  # and nothing is in the way
            pass
        await locks.close()

    paint.run(story())


def test_a_waiter_whose_connections_are_cut_is_still_woken(
    database: Database, paint: Colour
) -> None:
    async def story() -> None:
        locks, others = connect(paint, database.url), connect(paint, database.url)
        lease = await locks.lock("x").acquire()
        waiter = paint.spawn(lambda: others.lock("x").acquire(timeout=60))
        await until(paint, lambda: listens(database))
        (pid,) = listens(database)
        database.server.end_session(pid)
        await until(paint, lambda: listens(database) not in ([], [pid]))
        await lease.release()
        assert (await waiter.result(60)).fence > lease.fence
        await locks.close()
        await others.close()

    paint.run(story())
