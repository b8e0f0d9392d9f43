"""The databases that the tests of history use, and a stranger's transaction in each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
import pymysql
import pytest

from tests.servers.databases import Database

TABLE = "locknut_locks_history"
SERVERS = [
    pytest.param("postgresql", marks=pytest.mark.postgresql),
    pytest.param("mariadb", marks=pytest.mark.mariadb),
    pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow]),
]
DATABASES = [pytest.param("sqlite", marks=pytest.mark.sqlite), *SERVERS]


class Place(NamedTuple):
    """Where locks are, and how to look there with SQL."""

    engine: str
    url: str
    database: Database | None
    path: Path

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        if self.database is not None:
            return self.database.ask(sql)
        with closing(sqlite3.connect(self.path)) as file, file:
            return file.execute(sql).fetchall()

    def count(self, where: str = "1 = 1") -> int:
        return int(str(self.ask(f"SELECT count(*) FROM {TABLE} WHERE {where}")[0][0]))


def place(engine: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    path = folder / "locks.db"
    if engine == "sqlite":
        return Place(engine, f"sqlite://{path}", None, path)
    database: Database = request.getfixturevalue(f"{engine}_database")
    return Place(engine, database.url, database, path)


@contextmanager
def transaction(database: Database, *statements: str) -> Iterator[None]:
    """Of somebody else, who has said this and does not come to an end."""
    server = database.server
    with closing(
        psycopg.connect(database.url)
        if server.scheme == "postgresql"
        else pymysql.connect(
            host=server.host,
            port=server.port,
            user=database.user,
            password=database.password,
            database=database.name,
            autocommit=False,
        )
    ) as session:
        cursor = session.cursor()
        for each in statements:
            cursor.execute(each)
        yield
        session.rollback()
