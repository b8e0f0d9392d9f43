"""A table of an older shape is refused with what to do, and not half understood."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import locknut
from locknut.errors import ConfigurationError
from tests.servers.databases import Database

TYPES = {
    "postgresql": ("bytea", "text", "text"),
    "mariadb": ("VARBINARY(2560)", "VARCHAR(64)", "LONGTEXT"),
    "mysql": ("VARBINARY(2560)", "VARCHAR(64)", "LONGTEXT"),
    "sqlite": ("BLOB", "TEXT", "TEXT"),
}
OLDER = """
CREATE TABLE locknut_locks (
    name {0} NOT NULL PRIMARY KEY, fence bigint NOT NULL, stamp bigint NOT NULL,
    holder {1} NOT NULL, expires bigint NOT NULL, facts {2} NOT NULL, line {2} NOT NULL,
    others {2} NOT NULL)
"""


@pytest.mark.parametrize(
    "engine", [pytest.param(each, marks=getattr(pytest.mark, each)) for each in TYPES]
)
def test_it_is_refused(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    older = OLDER.format(*TYPES[engine])
    if engine == "sqlite":
        url = f"sqlite:///{tmp_path}/locks.db"
        with closing(sqlite3.connect(tmp_path / "locks.db")) as file:
            file.execute(older)
    else:
        database: Database = request.getfixturevalue(f"{engine}_database")
        database.ask(older)
        if engine == "postgresql":
            database.ask(f"GRANT ALL ON locknut_locks TO {database.user}")
        url = database.url
    with locknut.connect(url) as locks, pytest.raises(ConfigurationError, match="locknut_locks"):
        locks.lock("x").acquire(timeout=30)
