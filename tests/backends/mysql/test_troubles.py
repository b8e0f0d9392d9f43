"""What a server refuses, keeps locked or has no room for becomes an error that says what to do."""

from __future__ import annotations

import asyncio
import time
from typing import cast

import pytest

import locknut
from locknut import aio
from locknut.backends.sql.hold_records import number_of
from locknut.backends.sql.mysql.engine import open_url
from locknut.backends.sql.table_port import US, Seen, Take
from locknut.errors import BackendUnavailable, ConfigurationError
from locknut.runtimes.threads import run
from locknut.urls import parse
from tests.backends.mysql.conftest import acquired, eventually, full, in_thread, stranger_of, table
from tests.backends.mysql.test_deadlocks import deadlocks
from tests.servers.databases import Database

pytestmark = pytest.mark.faults
HOSTILE = ["a", "A", "a ", " a", "a\\", "a'", 'a"', "a%", "a_", "á", "a\u0301", "😀", "a;--", "`a`"]


def test_hostile_names_are_different_locks(url: str) -> None:
    with locknut.connect(url) as locks:
        leases = [acquired(locks.lock(name), timeout=0) for name in HOSTILE]
        with locknut.connect(url) as others:
            assert not any(others.lock(name).acquire(timeout=0) for name in HOSTILE)
        assert {info.name for info in locks.list()} == set(HOSTILE)
        for lease in leases:
            assert lease is not None
            lease.release()


@pytest.mark.parametrize("mode", ["lease", "session"])
def test_settings_of_the_server_change_nothing(database: Database, mode: str) -> None:
    """A mode that escapes and quotes otherwise, or assigns all columns at once (MariaDB has it); no
    autocommit; the strictest isolation.
    """
    server = database.server
    before = server.ask("SELECT @@GLOBAL.sql_mode, @@GLOBAL.autocommit")[0]
    ours = ",SIMULTANEOUS_ASSIGNMENT" if server.scheme == "mariadb" else ""
    server.ask(f"SET GLOBAL sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT{ours}'")
    server.ask("SET GLOBAL autocommit = 0")
    server.ask("SET GLOBAL TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    try:
        with locknut.connect(f"{database.url}?mode={mode}") as locks:
            for _ in range(3):  # each way to take it and to give it back
                with locks.lock('it\'s \\ "so"', timeout=20):
                    held = "SELECT COUNT(*) FROM locknut_locks WHERE holders <> ''"
                    assert database.ask(held) == [(1,)]
                    assert [each.name for each in locks.list()] == ['it\'s \\ "so"']
                assert not locks.list()
    finally:
        server.ask(f"SET GLOBAL sql_mode = '{before[0]}'")
        server.ask(f"SET GLOBAL autocommit = {before[1]}")
        server.ask("SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ")


@pytest.mark.slow
def test_a_row_that_a_stranger_keeps_locked(database: Database) -> None:
    """Lock-wait errors (1205) undo a statement; it is tried again, and then is an error."""
    ours = table(database, "?timeout=30s")
    wanted = Take(b"lx", "a" * 32, US, "[]", queue=False, stamp=1)
    run(ours.take(wanted))
    stranger = stranger_of(database)
    with stranger.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT * FROM locknut_locks WHERE name = 'lx' FOR UPDATE")
        with pytest.raises(BackendUnavailable, match="keeps our rows locked"):
            run(ours.take(wanted))
        waiting = in_thread(lambda: run(ours.take(wanted)))
        eventually(lambda: _somebody_waits(database), "it does not wait for the row")
        cursor.execute("ROLLBACK")
    stranger.close()
    (seen,) = waiting()
    assert number_of(cast("Seen", seen), wanted.claim_id) is not None
    run(ours.close())


def test_a_deadlock_with_strangers_is_tried_again(database: Database) -> None:
    """`all` locks two rows; a stranger locks them the other way round (1213)."""
    with locknut.connect(f"{database.url}?timeout=20s") as locks:
        acquired(locks.all("a", "b")).release()
        names = [name for (name,) in database.ask("SELECT name FROM locknut_locks ORDER BY name")]
        before = deadlocks(database)
        stranger = stranger_of(database)
        with stranger.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 20")
            cursor.execute("START TRANSACTION")
            # Something heavy: the server gives up the lighter of the two.
            cursor.execute("CREATE TEMPORARY TABLE heavy (n INT) ENGINE=InnoDB")
            cursor.execute("INSERT INTO heavy VALUES " + ",".join(["(1)"] * 500))
            touch = "UPDATE locknut_locks SET stamp = stamp + 1 WHERE name = %s"
            cursor.execute(touch, [names[1]])
            asked = in_thread(lambda: locks.all("a", "b").acquire(timeout=30))
            eventually(lambda: _somebody_waits(database), "it does not wait for the row")
            cursor.execute(touch, [names[0]])
            assert deadlocks(database) == before + 1
            cursor.execute("ROLLBACK")
        stranger.close()
        (lease,) = asked()
        assert lease is not None
        lease.release()  # type: ignore[attr-defined]


def _somebody_waits(database: Database) -> bool:
    trx = "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    return database.ask(trx) != [(0,)]


def test_a_read_only_server(database: Database) -> None:
    with locknut.connect(database.url) as locks:
        acquired(locks.lock("x")).release()
        database.server.read_only(True)
        try:
            with pytest.raises(ConfigurationError, match=r"read-only.*primary"):
                locks.lock("x").acquire(timeout=20)
        finally:
            database.server.read_only(False)
        acquired(locks.lock("x"), timeout=20).release()


def test_a_table_that_is_not_ours(database: Database) -> None:
    database.ask("CREATE TABLE locknut_locks (id INT PRIMARY KEY, name TEXT)")
    with (
        locknut.connect(database.url) as locks,
        pytest.raises(ConfigurationError, match=r"not one of ours.*\?table="),
    ):
        locks.lock("x").acquire(timeout=20)
    with locknut.connect(f"{database.url}?table=others") as locks:
        acquired(locks.lock("x"), timeout=20).release()


def test_no_right_to_create_the_table(database: Database) -> None:
    rights = "SELECT, INSERT, UPDATE, DELETE ON " + database.name + ".*"
    poor = database.login("poor", rights)
    with (
        locknut.connect(poor.url) as locks,
        pytest.raises(ConfigurationError, match="locknut schema -u URL"),
    ):
        locks.lock("x").acquire(timeout=20)
    with locknut.connect(database.url) as rich:
        acquired(rich.lock("x")).release()
    with locknut.connect(poor.url) as locks:
        acquired(locks.lock("x"), timeout=20).release()


def test_a_wrong_password_or_database(database: Database) -> None:
    wrong = database.url.replace("s3cret", "guess")
    elsewhere = database.url.replace(database.name, "nowhere")
    for url in (wrong, elsewhere):
        with locknut.connect(url) as locks, pytest.raises(ConfigurationError, match="refuses"):
            locks.lock("x").acquire(timeout=20)


def test_all_connections_are_busy(database: Database) -> None:
    """A caller with little time is told so within it; one with time gets its turn."""
    with locknut.connect(f"{database.url}?connections=1&timeout=20s") as locks:
        acquired(locks.lock("x")).release()
        stranger = stranger_of(database)
        with stranger.cursor() as cursor:
            cursor.execute("START TRANSACTION")
            cursor.execute("SELECT * FROM locknut_locks WHERE name LIKE 'l%' FOR UPDATE")
            slow = in_thread(lambda: _outcome(locks))
            eventually(lambda: _somebody_waits(database), "it does not wait for the row")
            begun = time.monotonic()
            with pytest.raises(BackendUnavailable, match=r"busy.*\?connections=|no time"):
                locks.lock("y").acquire(timeout=0.3)
            assert time.monotonic() - begun < 3
            cursor.execute("ROLLBACK")
        stranger.close()
        assert slow() == ["acquired"]
        acquired(locks.lock("y"), timeout=20).release()


def _outcome(locks: locknut.Locks) -> str:
    try:
        lease = acquired(locks.lock("x"), timeout=20)
    except BackendUnavailable as error:
        return str(error)
    assert lease is not None
    lease.release()
    return "acquired"


@pytest.mark.usefixtures("patient_callers")
def test_the_server_has_no_connection_left(database: Database) -> None:
    with (
        full(database),
        locknut.connect(database.url) as locks,
        pytest.raises(BackendUnavailable, match="no connection left"),
    ):
        locks.lock("x").acquire(blocking=False)


def test_on_a_full_server_the_connections_that_are_open_serve_all_in_turn(
    database: Database,
) -> None:
    pool = open_url(parse(f"{database.url}?timeout=30s"))._pool()
    pool.ask(["SELECT 1"])
    with full(database, ours=1):
        busy = in_thread(lambda: pool.ask(["SELECT SLEEP(1)"]))
        eventually(lambda: bool(pool._lent), "it is not in use")
        others = [in_thread(lambda: pool.ask(["SELECT 2"])) for _ in range(3)]
        assert [each() for each in others] == [[[((2,),)]]] * 3
        assert busy() == [[((0,),)]]
    pool.close()


@pytest.mark.usefixtures("patient_callers")
def test_nobody_waits_for_a_connection_that_it_uses_itself(database: Database) -> None:
    """Code of others may run in the middle of a command, a destructor say."""
    pool = open_url(parse(f"{database.url}?timeout=30s"))._pool()
    pool.ask(["SELECT 1"])
    told: list[str] = []

    def in_the_middle(_answers: object) -> bool:
        with pytest.raises(BackendUnavailable, match="no connection left") as raised:
            pool.ask(["SELECT 2"])
        told.append(str(raised.value))
        return True

    with full(database, ours=1):
        assert pool.ask_all(["SELECT 3"], in_the_middle)
    assert told
    pool.close()


def test_a_loop_is_told_the_same(database: Database) -> None:
    database.ask("CREATE TABLE locknut_locks (id INT PRIMARY KEY)")

    async def story() -> None:
        async with aio.connect(database.url) as locks:
            with pytest.raises(ConfigurationError, match="not one of ours"):
                await locks.lock("x").acquire(timeout=20)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("mysql://host", "a database is needed"),
        ("mysql://host/one/two", "a database is needed"),
        ("mysql://one,two/locks", "one server"),
        ("mysql://host:x/locks", "a port that is not a number"),
        ("mysql://host:99999/locks", "a number below 65536"),
        ("mysql://host/locks?mode=other", "mode must be lease or session; got 'other'"),
        ("mysql://host/locks?connections=0", "connections must be"),
        ("mysql://host/locks?table=a-b", "table='a-b'"),
        ("mysql://host/locks?ssl=perhaps", "ssl must be yes or no"),
        ("mysql://host/locks?ssl_ca=/nowhere", "no such file"),
        ("mysql://host/locks?ssl_verify_identity=no", "needs ssl=yes"),
        ("mariadb://host/locks?sll=yes", "sll"),
    ],
)
def test_urls_that_are_wrong(url: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        locknut.connect(url)
