"""What the server refuses, and what that is called: whoever reads the error knows what to do."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest

import locknut
from locknut.errors import BackendError, BackendUnavailable, ConfigurationError
from locknut.testing.conformance.colours import Colour
from tests.backends.postgresql.conftest import (
    TABLE,
    backend,
    claim,
    connect,
    row_is_waited_for,
    rows,
    until,
)
from tests.servers.databases import Database
from tests.servers.postgresql import PostgresServer

pytestmark = pytest.mark.postgresql
GRANT = f"SELECT, INSERT, UPDATE, DELETE ON {TABLE}"


def foreign(database: Database) -> Any:
    """A connection of somebody else's, in a transaction."""
    return psycopg.connect(database.url)


@pytest.mark.slow
def test_a_row_that_a_stranger_has_locked_is_tried_for_and_then_named(
    database: Database, paint: Colour
) -> None:
    async def story() -> None:
        locks = connect(paint, f"{database.url}?timeout=2")
        bare, asked = backend(paint, f"{database.url}?timeout=2"), claim()
        async with locks.lock("x"):
            pass
        with closing(foreign(database)) as other:
            other.execute(f"SELECT FROM {TABLE} FOR UPDATE")
            with pytest.raises(BackendUnavailable, match="another transaction has locked the row"):
                await bare.attempt(asked, 0.0)
            other.rollback()
        await bare.release(asked, outcome_unknown=True)
        await bare.close()
        async with locks.lock("x", timeout=20):
            pass
        await locks.close()

    paint.run(story())


def test_a_stranger_that_lets_go_in_time_is_waited_for(database: Database, paint: Colour) -> None:
    async def story() -> None:
        locks = connect(paint, f"{database.url}?timeout=20")
        async with locks.lock("x"):
            pass
        with closing(foreign(database)) as other:
            other.execute(f"SELECT FROM {TABLE} FOR UPDATE")
            asked = paint.spawn(lambda: locks.lock("x").acquire(timeout=60))
            await until(paint, lambda: row_is_waited_for(database))
            other.rollback()
        lease = await asked.result(60)
        await lease.release()
        await locks.close()

    paint.run(story())


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_another_default_isolation_changes_nothing(
    database: Database, paint: Colour, level: str
) -> None:
    """Under it a statement that waited for a row would fail (40001), as it does for strangers."""
    database.ask(f"ALTER DATABASE {database.name} SET default_transaction_isolation = '{level}'")

    async def story() -> None:
        locks = connect(paint, f"{database.url}?timeout=20")
        lease = await locks.lock("x").acquire()
        with closing(foreign(database)) as other:
            other.execute(f"UPDATE {TABLE} SET stamp = stamp + 1")
            releasing = paint.spawn(lease.release)
            await until(paint, lambda: row_is_waited_for(database))
            other.commit()
        await releasing.result(60)
        assert not rows(database)[0][0]
        await locks.close()

    paint.run(story())


def test_a_deadlock_is_tried_again(database: Database, paint: Colour) -> None:
    """PostgreSQL undoes the one that has waited for longer: that is ours, and nobody notices."""
    first, second = (f"name = '\\x{b'lt:'.hex()}{each.encode().hex()}'" for each in "ab")

    async def story() -> None:
        locks = connect(paint, f"{database.url}?timeout=30")
        async with locks.all("a", "b"):
            pass
        with closing(database.server.connect(database.name)) as other:  # type: ignore[attr-defined]
            other.autocommit = False
            other.execute("SET deadlock_timeout = '1h'")
            other.execute(f"SELECT FROM {TABLE} WHERE {second} FOR UPDATE")
            asked = paint.spawn(lambda: locks.all("a", "b").acquire(timeout=60))
            await until(paint, lambda: row_is_waited_for(database))
            other.execute(f"SELECT FROM {TABLE} WHERE {first} FOR UPDATE")  # until ours is undone
            other.rollback()
        lease = await asked.result(60)
        assert lease is not None
        await lease.release()
        await locks.close()

    paint.run(story())


def test_a_server_without_a_free_connection(paint: Colour) -> None:
    async def story(database: Database) -> None:
        locks = connect(paint, f"{database.url}?timeout=1")
        taken = []
        try:
            while True:
                taken.append(psycopg.connect(database.url))
        except psycopg.OperationalError:
            pass
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            await locks.lock("x").acquire(timeout=0)
        for each in taken:
            each.close()
        async with locks.lock("x", timeout=20):
            pass
        await locks.close()

    with PostgresServer(connections=4) as server:
        paint.run(story(server.database()))


def test_our_own_bound_is_kept_and_named(database: Database, paint: Colour) -> None:
    """While a stranger has the row, the only connection waits: nobody hangs behind it."""

    async def story() -> None:
        locks = connect(paint, f"{database.url}?connections=1&timeout=30")
        async with locks.lock("x"):
            pass
        with closing(foreign(database)) as other:
            other.execute(f"SELECT FROM {TABLE} FOR UPDATE")
            first = paint.spawn(lambda: locks.lock("x").acquire(timeout=60))
            await until(paint, lambda: row_is_waited_for(database))
            with pytest.raises((BackendUnavailable, locknut.AcquireTimeout)):
                await locks.lock("y", timeout=0.3).acquire()
            other.rollback()
        await (await first.result(60)).release()
        await locks.close()

    paint.run(story())


def test_a_server_that_only_reads(own_server: PostgresServer, own_database: Database) -> None:
    with locknut.connect(own_database.url, namespace="t") as locks:
        with locks.lock("x"):
            pass
        own_server.read_only(True)
        with pytest.raises(ConfigurationError, match="takes no writes"):
            locks.lock("x").acquire(timeout=0)
        with (
            locknut.connect(own_database.url, namespace="t") as others,
            pytest.raises(ConfigurationError, match="takes no writes"),
        ):
            others.lock("x").acquire(timeout=0)
        own_server.read_only(False)
        with locks.lock("x", timeout=20):
            pass


def test_who_may_not_create_the_table_is_told_what_to_do(database: Database) -> None:
    poor = database.login("poor")
    with (
        locknut.connect(poor.url, namespace="t") as locks,
        pytest.raises(ConfigurationError, match="locknut schema -u URL"),
    ):
        locks.lock("x").acquire(timeout=0)


def test_who_lacks_a_right_is_told_which(database: Database) -> None:
    with locknut.connect(database.url, namespace="t") as locks, locks.lock("x"):
        pass
    poor = database.login("reader", f"SELECT ON {TABLE}")
    with (
        locknut.connect(poor.url, namespace="t") as locks,
        pytest.raises(ConfigurationError, match="GRANT SELECT, INSERT, UPDATE, DELETE"),
    ):
        locks.lock("x").acquire(timeout=0)
    enough = database.login("locker", GRANT)
    with locknut.connect(enough.url, namespace="t") as locks, locks.lock("x"):
        pass


def test_a_table_of_somebody_else(database: Database) -> None:
    database.ask(f"CREATE TABLE {TABLE} (id int PRIMARY KEY, title text)")
    database.ask(f"GRANT ALL ON {TABLE} TO {database.user}")
    with (
        locknut.connect(database.url, namespace="t") as locks,
        pytest.raises(ConfigurationError, match="is not one of locks"),
    ):
        locks.lock("x").acquire(timeout=0)


def test_the_table_is_made_by_many_at_once(database: Database, paint: Colour) -> None:
    async def story() -> None:
        many = [connect(paint, database.url) for _ in range(6)]
        work = [paint.spawn(partial(_try, each)) for each in many]
        leases = [await each.result(60) for each in work]
        assert sum(lease is not None for lease in leases) == 1
        for each in many:
            await each.close()

    paint.run(story())


async def _try(locks: Any) -> Any:
    return await locks.lock("x").acquire(timeout=0)


def test_a_table_that_was_dropped_is_made_again(database: Database) -> None:
    with locknut.connect(database.url, namespace="t") as locks:
        with locks.lock("x"):
            pass
        database.ask(f"DROP TABLE {TABLE}")
        with locks.lock("x"):
            pass


def test_no_error_shows_the_password(database: Database) -> None:
    wrong = database.url.replace(database.password, "hunter2")
    with (
        locknut.connect(wrong, namespace="t") as locks,
        pytest.raises(BackendError, match="authentication failed") as caught,
    ):
        locks.lock("x").acquire(timeout=0)
    shown: BaseException | None = caught.value
    while shown is not None:
        assert "hunter2" not in f"{shown} {shown!r}"
        shown = shown.__cause__ or shown.__context__
    assert "hunter2" not in repr(locks)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("postgresql://h/db?conections=3", "connections"),
        ("postgresql://h/db?connections=0", "connections must be"),
        ("postgresql://h/db?table=a;b", "table="),
        ("postgresql://h/db?timeout=1ms", "timeout must be"),
        ("postgresql://h/db?mode=maybe", "mode must be"),
        ("postgresql://h/db?pool_mode=x", "pool_mode must be"),
        ("postgresql://h/db?target_session_attrs=standby", "takes writes"),
        ("postgresql://a,b,c/db?port=1,2", "port"),
        ("postgresql://u:hunter2@h:x/db", "wrong|port"),
    ],
)
def test_urls_that_are_wrong(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        locknut.connect(url)
    assert "hunter2" not in str(caught.value)
