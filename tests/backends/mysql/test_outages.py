"""A server that is killed or forgets, connections that are cut or inherited: nothing is lost."""

from __future__ import annotations

from contextlib import suppress

import pytest

import locknut
from locknut.backends.sql.mysql.engine import open_url
from locknut.errors import BackendError, BackendUnavailable
from locknut.urls import parse
from tests.backends.mysql.conftest import PATIENCE, acquired, eventually, in_thread, stranger_of
from tests.forks.child import in_child
from tests.servers.databases import Database

pytestmark = pytest.mark.faults


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
