"""The guard for data in an SQL database, by every driver and in both colours: who is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import django
import pymysql
import pytest
from django.conf import settings
from django.db import connections, transaction
from psycopg.rows import class_row, dict_row
from pymysql.constants import CLIENT

import locknut
from locknut.errors import ConfigurationError, StaleFence
from locknut.guards.sql import SqlGuard, aio, create_table
from locknut.guards.sql.dialects import DIALECTS
from tests.contracts.sources import ROOT
from tests.guards.sql_databases import Database, every_database, every_way, on
from tests.guards.sql_holders import NAME, Holder

BIG = 2**62


@pytest.fixture
def ends() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@every_way
def test_an_older_fence_is_refused_once_a_newer_one_is_committed(
    database: Database, way: str, ends: ExitStack
) -> None:
    old, new = (ends.enter_context(database.holder(way)) for _ in range(2))
    old.enter(7).write(90)
    old.commit()
    assert new.enter(8).read() == 90
    new.commit()
    with pytest.raises(StaleFence, match=f"{NAME} was entered with fence 8, and yours is 7"):
        old.enter(7)
    old.rollback()
    new.enter(8).write(new.read() + 1)
    new.commit()
    with pytest.raises(StaleFence):
        old.enter(7)
    old.rollback()
    assert (new.read(), new.newest(), new.guard.fence, old.guard.fence) == (91, 8, 8, 7)


@every_way
def test_a_refused_transaction_can_be_rolled_back_and_changes_nothing(
    database: Database, way: str, ends: ExitStack
) -> None:
    old, new = (ends.enter_context(database.holder(way)) for _ in range(2))
    new.enter(8)
    new.commit()
    old.write(0)  # before it entered, in the same transaction
    with pytest.raises(StaleFence):
        old.enter(7)
    old.rollback()
    assert (new.read(), new.newest()) == (100, 8)


@every_way
def test_a_rollback_takes_the_record_back(database: Database, way: str, ends: ExitStack) -> None:
    """Who rolled back has changed nothing; what it read counts for nothing."""
    old, new = (ends.enter_context(database.holder(way)) for _ in range(2))
    new.enter(8)
    new.rollback()
    assert new.newest() is None
    new.rollback()
    old.enter(7)
    old.commit()
    assert new.newest() == 7


@every_way
def test_the_same_fence_may_come_in_again(database: Database, way: str, ends: ExitStack) -> None:
    holder = ends.enter_context(database.holder(way))
    holder.enter(7).enter(7).write(1)
    holder.commit()
    holder.enter(7).write(2)
    holder.commit()
    assert (holder.enter(7).read(), holder.newest()) == (2, 7)


@every_way
def test_statements_that_commit_by_themselves_are_refused(
    database: Database, way: str, ends: ExitStack
) -> None:
    """The row would be free again before the next statement."""
    holder = ends.enter_context(database.holder(way))
    set_autocommit(database, holder)
    with pytest.raises(ConfigurationError, match="inside a transaction"):
        holder.enter(7)
    holder.ask("BEGIN")
    holder.enter(7)  # now there is one
    holder.ask("ROLLBACK")


def set_autocommit(database: Database, holder: Holder) -> None:
    connection = holder.connection
    if hasattr(connection, "get_bind"):
        options = {"execution_options": {"isolation_level": "AUTOCOMMIT"}}
        holder.done(connection.connection(**options))
    elif hasattr(connection, "exec_driver_sql"):
        holder.done(connection.execution_options(isolation_level="AUTOCOMMIT"))
    elif database.name == "sqlite":
        connection.isolation_level = None
    elif hasattr(connection, "set_autocommit"):
        holder.done(connection.set_autocommit(True))
    else:
        holder.done(connection.autocommit(True))


@every_database
def test_names_are_told_apart_to_the_last_byte(database: Database) -> None:
    names = ["stock", "Stock", "stock ", "stöck", "sto\u0308ck", "stock\0", "\0stock", "%s"]
    names += ["ß", "ss", "x" * 1023, "x" * 1024, "é" * 512, "'; DROP TABLE stock; --", "\\"]
    with database.holder() as holder:
        for fence, name in enumerate(names, 1):
            guard = SqlGuard(holder.connection, name)
            assert guard.newest() is None, name
            assert guard.enter(fence).newest() == fence
        holder.commit()
        for fence, name in enumerate(names, 1):
            assert SqlGuard(holder.connection, name).newest() == fence


@every_database
def test_the_largest_fences_are_told_apart(database: Database) -> None:
    with database.holder() as holder:
        holder.enter(BIG + 7)
        with pytest.raises(StaleFence):
            holder.enter(BIG + 6)
        assert holder.enter(2**63 - 1).newest() == 2**63 - 1


@every_database
def test_a_cursor_is_as_good_as_its_connection(database: Database) -> None:
    with database.holder() as holder:
        cursor = holder.connection.cursor()
        cursor.execute("SELECT amount FROM stock UNION ALL SELECT 5")
        SqlGuard(cursor, NAME).enter(7)
        assert len(cursor.fetchall()) == 2, "the rows of the program are still there"
        assert holder.newest() == 7


def test_a_cursor_of_aiosqlite_is_used_itself(database: Database) -> None:
    with database.holder("aiosqlite") as holder:
        cursor = holder.done(holder.connection.cursor())
        holder.done(aio.SqlGuard(cursor, NAME).enter(7))
        assert holder.newest() == 7
        holder.rollback()


@every_database
def test_a_table_of_another_name(database: Database) -> None:
    with database.holder() as holder:
        holder.ask("DROP TABLE IF EXISTS fences_of_mine")
        create_table(holder.connection, table="fences_of_mine")
        holder.commit()
        SqlGuard(holder.connection, NAME, table="fences_of_mine").enter(7)
        assert holder.newest() is None


@on("mariadb", "mysql")
@pytest.mark.parametrize("flag", [0, CLIENT.FOUND_ROWS])
def test_whether_rows_count_as_found_or_as_changed_does_not_matter(
    database: Database, flag: int
) -> None:
    """Drivers count differently what an UPDATE has done, and nothing is decided by that."""
    with Holder(lambda: database.connect(client_flag=flag)) as holder:
        holder.enter(7).enter(7)
        holder.commit()
        holder.enter(8)
        holder.commit()
        with pytest.raises(StaleFence):
            holder.enter(7)
        assert holder.newest() == 8


class Wanted:
    """What a program wants its own rows to be; it cannot be made from ours."""

    def __init__(self, amount: int) -> None:
        self.amount = amount


def test_rows_of_sqlite_may_be_anything(database: Database) -> None:
    for fence, factory in enumerate((sqlite3.Row, lambda _, row: row[0]), 7):
        with database.holder() as holder:
            holder.connection.row_factory = factory
            assert holder.enter(fence).newest() == fence


@on("postgresql")
def test_rows_of_psycopg_may_be_anything(database: Database) -> None:
    for fence, factory in enumerate((dict_row, class_row(Wanted)), 7):
        with database.holder() as holder:
            holder.connection.row_factory = factory
            assert holder.enter(fence).newest() == fence


@on("mariadb", "mysql")
@pytest.mark.parametrize(
    "kind", [pymysql.cursors.DictCursor, pymysql.cursors.SSCursor, pymysql.cursors.SSDictCursor]
)
def test_rows_of_pymysql_may_be_anything(database: Database, kind: type[Any]) -> None:
    with database.holder() as holder:
        holder.connection.cursorclass = kind
        assert holder.enter(7).newest() == 7


class Pooled:
    """A connection as some pools give it: it leads to the driver's, and is not of its module."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def cursor(self) -> Any:
        return self._connection.cursor()

    def commit(self) -> None:
        self._connection.commit()


@every_database
def test_an_unknown_connection_is_told_about(database: Database) -> None:
    with database.holder() as holder:
        pooled = Pooled(holder.connection)
        with pytest.raises(ConfigurationError, match="what is the dialect of a Pooled"):
            SqlGuard(pooled, NAME)
        with pytest.raises(ConfigurationError, match="what is the paramstyle of a Pooled"):
            SqlGuard(pooled, NAME, dialect=database.name)
        style = "qmark" if database.name == "sqlite" else "format"
        guard = SqlGuard(pooled, NAME, dialect=database.name, paramstyle=style)
        assert guard.enter(7).newest() == 7


def test_a_connection_of_django(tmp_path: Path) -> None:
    if not settings.configured:
        settings.configure(DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3"}})
        django.setup()
    connection = connections["default"]
    connection.settings_dict["NAME"] = tmp_path / "stock.db"
    create_table(connection)
    with pytest.raises(ConfigurationError, match="inside a transaction"):
        SqlGuard(connection, NAME).enter(7)
    with transaction.atomic():
        assert SqlGuard(connection, NAME).enter(8).newest() == 8
    with transaction.atomic(), connection.cursor() as cursor:
        assert SqlGuard(cursor, NAME).enter(8).newest() == 8
    with pytest.raises(StaleFence), transaction.atomic():
        SqlGuard(connection, NAME).enter(7)
    connection.close()


@pytest.mark.parametrize("style", ["qmark", "named", "numeric"])
def test_every_way_to_write_parameters(database: Database, style: str) -> None:
    with database.holder() as holder:
        guard = SqlGuard(holder.connection, NAME, paramstyle=style)
        assert guard.enter(7).newest() == 7


def test_a_class_of_the_programs_own_is_known_by_its_base() -> None:
    class Mine(sqlite3.Connection):
        pass

    connection = sqlite3.connect(":memory:", factory=Mine)
    create_table(connection)
    assert SqlGuard(connection, NAME).enter(7).fence == 7
    connection.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "stock; DROP"}, "table="),
        ({"table": ""}, "table="),
        ({"table": "a.b.c"}, "table="),
        ({"dialect": "oracle"}, "dialect='oracle'"),
        ({"paramstyle": "dollar"}, "paramstyle='dollar'"),
        ({"name": ""}, "name"),
        ({"name": "x" * 1025}, "1025 bytes"),
    ],
)
def test_wrong_words_are_refused(options: dict[str, Any], message: str) -> None:
    with (
        sqlite3.connect(":memory:") as connection,
        pytest.raises(ConfigurationError, match=message),
    ):
        SqlGuard(connection, **{"name": NAME} | options)
    connection.close()


def test_what_is_no_connection_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="dialect of a int"):
        SqlGuard(7, NAME)


@pytest.mark.parametrize("way", ["connection", "sqlalchemy", "session"])
def test_the_other_colour_is_refused(database: Database, way: str) -> None:
    awaits = {"connection": "aiosqlite"}.get(way, f"{way}-asyncio")
    with database.holder(way) as blocks, database.holder(awaits) as on_a_loop:
        with pytest.raises(
            ConfigurationError, match=r"is for asyncio: .* locknut\.guards\.sql\.aio"
        ):
            SqlGuard(on_a_loop.connection, NAME)
        with pytest.raises(ConfigurationError, match=r"blocks: .* in locknut.guards.sql$"):
            aio.SqlGuard(blocks.connection, NAME)


def test_only_exclusive_holds_enter(database: Database) -> None:
    with database.holder() as holder, locknut.connect("memory:") as locks:
        with locks.lock("guarded") as lease:
            holder.guard.enter(lease)
            assert holder.guard.fence == lease.fence
        with locks.rwlock("guarded").read() as reader, pytest.raises(ConfigurationError):
            holder.guard.enter(reader)
        with locks.semaphore("some", 2) as permit, pytest.raises(ConfigurationError):
            holder.guard.enter(permit)
        for wrong in (0, -1, 2**63, True, "7", None):
            with pytest.raises(ConfigurationError):
                holder.guard.enter(wrong)


class Counted(Pooled):
    """Counts the statements."""

    said = 0

    def cursor(self) -> Any:
        self.said += 1
        return super().cursor()


@every_database
def test_an_entry_costs_as_many_statements_as_the_page_says(database: Database) -> None:
    with database.holder() as holder:
        style = "qmark" if database.name == "sqlite" else "format"
        counted = Counted(holder.connection)
        SqlGuard(counted, NAME, dialect=database.name, paramstyle=style).enter(7)
        assert counted.said == (2 if database.name == "postgresql" else 3)
        if database.name in {"mariadb", "mysql"}:
            holder.rollback()
            set_autocommit(database, holder)
            holder.ask("BEGIN")
            SqlGuard(counted, NAME, dialect=database.name, paramstyle=style).enter(7)
            assert counted.said == 3 + 5


def test_the_page_shows_the_tables_as_they_are_made() -> None:
    page = (ROOT / "docs/concepts/fencing.md").read_text(encoding="utf-8")
    for dialect in DIALECTS.values():
        assert dialect.table.format(table="locknut_guards") + ";" in page


@on("postgresql", "mariadb", "mysql")
def test_three_rights_are_enough(database: Database) -> None:
    rights = "SELECT, INSERT, UPDATE ON locknut_guards"
    other = type(database)(database.place.login("seller", rights))
    with other.holder() as holder:
        for fence in (7, 8):
            holder.enter(fence)
            holder.commit()
        with pytest.raises(StaleFence):
            holder.enter(7)


@every_database
def test_without_the_table_the_driver_says_so(database: Database) -> None:
    with database.holder() as holder:
        holder.ask("DROP TABLE locknut_guards")
        holder.commit()
        with pytest.raises(database.errors, match="locknut_guards"):
            holder.enter(7)


def test_its_repr_says_what_it_guards(database: Database) -> None:
    with database.holder() as holder:
        assert repr(holder.enter(7).guard) == f"SqlGuard({NAME!r}, fence=7)"
