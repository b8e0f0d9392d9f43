"""A server that is killed, stands still, forgets or is not answered: nothing is lost or left."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

import locknut
from locknut import aio
from locknut.backends.sql.mysql.engine import open_url
from locknut.errors import BackendError, BackendUnavailable
from locknut.testing import FaultProxy
from locknut.urls import parse
from tests.backends.mysql.conftest import PATIENCE, acquired, eventually, in_thread, stranger_of
from tests.forks.child import in_child
from tests.servers.databases import Database

pytestmark = pytest.mark.faults
WAITING = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
LATE = 3.0
"""How late a caller may be on a busy machine."""


def stranded(locks: locknut.Locks, name: str) -> bool:
    return locks.info(name).locked


@pytest.mark.slow
def test_a_killed_server_keeps_locks_and_numbers(database: Database) -> None:
    with locknut.connect(database.url) as locks:
        lease = acquired(locks.lock("x", ttl=120))
        database.server.restart(keep_data=True)
        with locknut.connect(database.url) as others:
            assert others.lock("x").acquire(timeout=0) is None
        lease.renew()
        lease.release()
        again = acquired(locks.lock("x"), timeout=PATIENCE)
        assert again is not None
        assert again.fence > lease.fence
        again.release()


def test_killed_connections_cost_no_lock(database: Database) -> None:
    with locknut.connect(database.url) as locks:
        lease = acquired(locks.lock("x", ttl=120))
        for _ in range(3):
            database.server.end_sessions()
            with suppress(BackendUnavailable):  # the server may hang up after we have looked
                lease.renew()
            lease.renew()
        lease.release()
        assert not locks.info("x").locked


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_a_server_that_stands_still(database: Database, colour: str) -> None:
    """A caller with a timeout returns at it, in both colours; what it asked for is undone."""

    async def on_a_loop() -> float:
        async with aio.connect(database.url) as locks:
            async with locks.lock("x"):
                pass
            database.server.stop()
            begun = time.monotonic()
            try:
                with suppress(BackendUnavailable):
                    assert await locks.lock("x").acquire(timeout=0.5) is None
                return time.monotonic() - begun
            finally:
                database.server.cont()

    def on_a_thread() -> float:
        with locknut.connect(database.url) as locks:
            acquired(locks.lock("x")).release()
            database.server.stop()
            begun = time.monotonic()
            try:
                with suppress(BackendUnavailable):
                    assert locks.lock("x").acquire(timeout=0.5) is None
                return time.monotonic() - begun
            finally:
                database.server.cont()

    took = on_a_thread() if colour == "blocking" else asyncio.run(on_a_loop())
    assert took < 0.5 + LATE
    with locknut.connect(database.url) as locks:
        eventually(lambda: not stranded(locks, "x"), "something was left behind")


def test_closing_is_short_while_the_server_stands_still(database: Database) -> None:
    locks = locknut.connect(database.url)
    leases = [acquired(locks.lock(f"x{number}", ttl=60)) for number in range(20)]
    assert all(leases)
    database.server.stop()
    try:
        begun = time.monotonic()
        locks.close()
        assert time.monotonic() - begun < 10
    finally:
        database.server.cont()


def test_answers_that_are_lost(database: Database) -> None:
    """The acquire was done, and its answer lost: asked again, it is the same hold and number."""
    with FaultProxy((database.server.host, database.server.port)) as proxy:
        url = database.url_through(proxy.port)
        with locknut.connect(f"{url}?timeout=1s") as locks:
            acquired(locks.lock("x")).release()
            proxy.replies.swallow()
            asked = in_thread(lambda: locks.lock("x", ttl=60).acquire(timeout=PATIENCE))
            held = "SELECT COUNT(*) FROM locknut_locks WHERE holders <> ''"
            eventually(lambda: database.ask(held) == [(1,)], "it did not arrive")
            proxy.heal()
            proxy.cut()
            (lease,) = asked()
            assert lease is not None
            lease.check()  # type: ignore[attr-defined]
            lease.release()  # type: ignore[attr-defined]
            assert not locks.info("x").locked


def test_an_older_state_gives_no_old_numbers(database: Database) -> None:
    """A backup is restored, or a replica that lagged is promoted: numbers go on growing."""
    with locknut.connect(database.url) as locks:
        lease = acquired(locks.lock("x"))
        lease.release()
        database.ask("CREATE TABLE backup AS SELECT * FROM locknut_locks")
        fences = []
        for _ in range(3):
            lease = acquired(locks.lock("x"))
            lease.release()
            fences.append(lease.fence)
        database.ask("DELETE FROM locknut_locks")
        database.ask("INSERT INTO locknut_locks SELECT * FROM backup")
        restored = acquired(locks.lock("x"))
        assert restored.fence > max(fences)
        restored.release()
        database.ask("DELETE FROM locknut_locks")
        emptied = acquired(locks.lock("x"))
        assert emptied.fence > restored.fence
        emptied.release()


def test_a_forked_child_lets_the_parents_connections_alone(database: Database) -> None:
    with locknut.connect(database.url) as locks, locks.lock("x") as lease:

        def child() -> None:
            assert locks.lock("x").acquire(timeout=0) is None
            with locks.lock("y", timeout=20):
                pass

        in_child(child)
        lease.renew()
        with locks.lock("z", timeout=20):
            pass
        assert locks.info("x").locked


def test_a_fork_while_other_threads_wait_for_the_server(database: Database) -> None:
    """One waits for a row, one for a bell: what they read with is locked in the child for ever."""
    with locknut.connect(f"{database.url}?timeout=30s") as locks:
        acquired(locks.lock("busy")).release()
        lease = acquired(locks.lock("x"))
        with locknut.connect(database.url) as others:
            waiting = in_thread(lambda: others.lock("x").acquire(timeout=PATIENCE))
            eventually(lambda: len(locks.info("x").waiters) == 1, "it does not wait")
            stranger = stranger_of(database)
            with stranger.cursor() as cursor:
                cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
                cursor.execute("START TRANSACTION")
                cursor.execute("SELECT * FROM locknut_locks WHERE name LIKE '%busy' FOR UPDATE")
                asking = in_thread(lambda: locks.lock("busy").acquire(timeout=PATIENCE))
                rows = (
                    "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state LIKE 'L%'"
                )
                eventually(lambda: database.ask(rows) != [(0,)], "it does not wait for the row")

                def child() -> None:
                    with locks.lock("y", timeout=30):
                        pass

                in_child(child)
                cursor.execute("ROLLBACK")
            stranger.close()
            lease.release()
            assert waiting() != [None]
            assert asking() != [None]


def test_the_unix_socket_leads_to_the_same_locks(database: Database) -> None:
    with (
        locknut.connect(database.unix_url) as locks,
        locks.lock("x"),
        locknut.connect(database.url) as others,
    ):
        assert others.lock("x").acquire(timeout=0) is None


def test_a_last_command_that_is_refused_leaves_no_connection_open(database: Database) -> None:
    pool = open_url(parse(database.url))._pool()
    pool.close()
    with pytest.raises(BackendError, match="nonsense"):
        pool.ask(["nonsense"])
    assert not pool._idle
