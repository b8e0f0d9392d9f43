"""The databases that the SQL guard is tested on: how each driver reaches them, and their words."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import aiomysql
import aiosqlite
import psycopg
import pymysql
import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from locknut.guards.sql import create_table
from tests.guards.sql_holders import Holder
from tests.servers.databases import Database as Place
from tests.servers.processes import until

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
Connect = Callable[[], Any]


class Database:
    """One of them, with the tables of a test in it."""

    name: str
    ways: tuple[str, ...]
    """The ways to it: a driver, or SQLAlchemy with that driver."""
    set_level: str
    """Says which isolation level the transactions of a connection have from now on."""
    hurry: str
    """Says that nobody waits long for a row."""
    waiting: str
    """Asks an administrator how many transactions wait for a row right now."""
    errors: type[Exception]
    """What its blocking driver raises when the database says no."""
    place: Place
    """Where its server has it; SQLite has a file."""

    def __init__(self, place: Any) -> None:
        raise NotImplementedError

    def connect(self, **options: Any) -> Any:
        """A connection of the blocking driver."""
        raise NotImplementedError

    def url(self, *, awaits: bool) -> str:
        """As SQLAlchemy wants it."""
        raise NotImplementedError

    def own_way(self, way: str) -> Connect:
        """The asyncio driver's."""
        raise NotImplementedError

    def way(self, way: str) -> Connect:
        """Makes a connection, or a session, of this kind."""
        plain = {"connection": self.connect, "sqlalchemy": self._alchemy, "session": self._session}
        if way in plain:
            return plain[way]
        awaits = create_async_engine(self.url(awaits=True), poolclass=NullPool)
        if way == "sqlalchemy-asyncio":
            return awaits.connect
        return (lambda: AsyncSession(awaits)) if way == "session-asyncio" else self.own_way(way)

    def holder(self, way: str = "connection", level: str | None = None) -> Holder:
        holder = Holder(self.way(way))
        if level is not None:
            holder.ask(self.set_level.format(level))
            holder.commit()
        return holder

    def hurried(self, level: str | None = None) -> Holder:
        """One who does not wait: whatever is locked is an error of the database."""
        holder = self.holder(level=level)
        holder.ask(self.hurry)
        holder.commit()
        return holder

    def lay_out(self) -> None:
        """The table of the guards, and a row to guard."""
        with self.holder() as holder:
            create_table(holder.connection)
            holder.ask("CREATE TABLE stock (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)")
            holder.ask("INSERT INTO stock (id, amount) VALUES (7, 100)")
            holder.commit()

    def until_waiting(self) -> None:
        """Until somebody waits for a row."""
        place = self.place
        until(lambda: place.ask(self.waiting) != [(0,)], f"somebody waits for a row of {place}")

    def _alchemy(self) -> Any:
        return create_engine(self.url(awaits=False), poolclass=NullPool).connect()

    def _session(self) -> Any:
        return Session(create_engine(self.url(awaits=False), poolclass=NullPool))


ALCHEMY = ("sqlalchemy", "session", "sqlalchemy-asyncio", "session-asyncio")


class SQLite(Database):
    name = "sqlite"
    ways = ("connection", "aiosqlite", *ALCHEMY)
    hurry = "PRAGMA busy_timeout = 0"
    errors = sqlite3.Error

    def __init__(self, place: Any) -> None:
        self._path = place / "stock.db"

    def connect(self, **options: Any) -> Any:
        return sqlite3.connect(self._path, timeout=60, check_same_thread=False, **options)

    def url(self, *, awaits: bool) -> str:
        return f"sqlite+{'aiosqlite' if awaits else 'pysqlite'}:///{self._path}"

    def own_way(self, way: str) -> Connect:
        assert way == "aiosqlite"
        return lambda: aiosqlite.connect(self._path, timeout=60, check_same_thread=False)


class PostgreSQL(Database):
    name = "postgresql"
    ways = ("connection", "psycopg-asyncio", *ALCHEMY)
    set_level = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL {}"
    hurry = "SET lock_timeout = '1ms'"
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    errors = psycopg.Error

    def __init__(self, place: Place) -> None:
        self.place = place

    def connect(self, **options: Any) -> Any:
        return psycopg.connect(self.place.url, **options)

    def url(self, *, awaits: bool) -> str:
        return self.place.url.replace("postgresql:", "postgresql+psycopg:")

    def own_way(self, way: str) -> Connect:
        assert way == "psycopg-asyncio"
        return lambda: psycopg.AsyncConnection.connect(self.place.url)


class MySQL(Database):
    """MariaDB too."""

    ways = ("connection", "aiomysql", *ALCHEMY)
    set_level = "SET SESSION TRANSACTION ISOLATION LEVEL {}"
    waiting = "SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
    errors = pymysql.MySQLError

    def __init__(self, place: Place) -> None:
        self.name = place.server.scheme
        shortest = 0 if self.name == "mariadb" else 1  # seconds
        self.hurry = f"SET SESSION innodb_lock_wait_timeout = {shortest}"
        self.place = place
        self._login = {"host": place.server.host, "port": place.server.port}
        self._login |= {"user": place.user, "password": place.password}

    def connect(self, **options: Any) -> Any:
        # Or else PyMySQL reads all certificates of the machine, for every connection.
        return pymysql.connect(
            **self._login, database=self.place.name, ssl_disabled=True, **options
        )

    def url(self, *, awaits: bool) -> str:
        driver = "aiomysql" if awaits else "pymysql"
        return self.place.url.replace(f"{self.name}:", f"{self.name}+{driver}:")

    def own_way(self, way: str) -> Connect:
        assert way == "aiomysql"
        return lambda: aiomysql.connect(**self._login, db=self.place.name)


KINDS: dict[str, type[Database]] = {
    "sqlite": SQLite,
    "postgresql": PostgreSQL,
    "mariadb": MySQL,
    "mysql": MySQL,
}


def on(*names: str) -> pytest.MarkDecorator:
    """For a test that runs on these."""
    return pytest.mark.parametrize("database", [_marked(name) for name in names], indirect=True)


def at(*levels: str) -> pytest.MarkDecorator:
    """For a test that runs at these isolation levels, on every server."""
    rows = [_marked(name, level) for name in KINDS if name != "sqlite" for level in levels]
    return pytest.mark.parametrize(("database", "level"), rows, indirect=["database"])


def _marked(name: str, *more: str) -> Any:
    return pytest.param(name, *more, marks=getattr(pytest.mark, name))


every_database = on(*KINDS)
every_level = at(*LEVELS)
every_way = pytest.mark.parametrize(
    ("database", "way"),
    [_marked(name, way) for name, kind in KINDS.items() for way in kind.ways],
    indirect=["database"],
)
