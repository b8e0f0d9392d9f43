"""Where the database file is, which table of it has the locks, and how long a command may take."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from locknut.backends.sql import statements as dialects
from locknut.backends.sql import table_options
from locknut.backends.sql.statements import HistoryStatements, Statements
from locknut.core import validation
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

OLDEST: Final = (3, 35)
"""The first SQLite that has RETURNING."""
LIMIT: Final = 5.0
"""Seconds. Writers have the file one after the other, in no order, and a crowd may come at once."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One table in one file."""

    path: str
    table: str = table_options.TABLE
    limit: float = LIMIT
    history: bool = False
    """Whether the connection is the history's, which has a table of its own."""

    @property
    def place(self) -> str:
        """Which locks these are, in every process of the machine."""
        other = "" if self.table == table_options.TABLE else f"?table={self.table}"
        return f"sqlite:{self.path}{other}"

    @property
    def statements(self) -> Statements:
        return dialects.load("sqlite", f'"{self.table}"')

    @property
    def history_statements(self) -> HistoryStatements:
        return dialects.load_history("sqlite", f'"{self.table}"')

    @property
    def create(self) -> tuple[str, ...]:
        """What makes the tables that the connection is for."""
        further = self.history_statements.create if self.history else ()
        return (*self.statements.create, *further)


def from_url(url: Url) -> Settings:
    """The settings of a URL; what it should not say is refused here."""
    validation.check_options("sqlite", url.options, table_options.OPTIONS)
    if sqlite3.sqlite_version_info < OLDEST:
        raise _wrong(f"SQLite 3.35 or newer is needed, this Python has {sqlite3.sqlite_version}")
    table = table_options.table_name("sqlite", url.options)
    if table.lower().startswith("sqlite_"):
        raise _wrong(f"table={table!r}: SQLite keeps names that begin with sqlite_ for itself")
    return Settings(_path(url), table, table_options.limit("sqlite", url.options, LIMIT))


def _path(url: Url) -> str:
    """The whole path, without links: two names of one file must not become two engines."""
    if url.netloc not in ("", "localhost"):
        raise _wrong(
            f"sqlite://{url.netloc}{url.path} names a host, {url.netloc!r}: a path on this machine"
            f" has three slashes, sqlite:///{url.netloc}{url.path}"
        )
    if url.path.strip("/") in ("", ":memory:"):
        raise _wrong("a sqlite: URL names a file, sqlite:///path/locks.db (without one: memory:)")
    if not url.path.startswith(("/", os.sep)):
        raise _wrong(
            f"sqlite:{url.path} depends on the current directory, so that two processes could be in"
            " different places: give the whole path, sqlite:///path/locks.db"
        )
    return os.path.realpath(url.path)


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, backend="sqlite")
