"""Opens the database file: refuses what is not safe, makes the table, and sets the clock."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from typing import Final

from locknut.backends.sql import table_options
from locknut.backends.sql.sqlite import failures
from locknut.backends.sql.sqlite.file_clock import FileClock
from locknut.backends.sql.sqlite.settings import Settings
from locknut.errors import ConfigurationError
from locknut.runtimes import file_systems
from locknut.runtimes.descriptors import away_from_standard

COLUMNS: Final = ("name", "fence", "stamp", "holders", "company", "expires", "line", "others")
OF_HISTORY: Final = ("number", "stream", "written", "entry")
_SHORT: Final = 0.005
"""Seconds between two attempts to open what others are just making."""


def connect(settings: Settings, clock: FileClock, until: float) -> sqlite3.Connection:
    """A new connection, by `until` on the monotonic clock."""
    refuse(settings.path)
    waits = max(0.001, until - time.monotonic())
    made = sqlite3.connect(settings.path, waits, isolation_level=None, check_same_thread=False)
    try:
        _write_ahead(made, settings.path, until)
        made.execute("PRAGMA synchronous = FULL")  # a grant that was told survives a power failure
        for statement in settings.create:
            made.execute(statement)
        _check_table(made, settings, settings.table, COLUMNS)
        if settings.history:
            _check_table(made, settings, table_options.history_table(settings.table), OF_HISTORY)
        clock.set(made, f'"{settings.table}"')
    except BaseException:
        made.close()
        raise
    return made


def refuse(path: str) -> None:
    """Raise if this is no place for a database. The file itself is not opened: to close it again
    would drop the locks that SQLite has on it in this process.
    """
    folder = os.path.dirname(path)
    try:
        fd = away_from_standard(os.open(folder, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        message = f"cannot use {path} for locks: its directory: {error.strerror}"
        raise ConfigurationError(message, backend="sqlite") from error
    try:
        system = file_systems.network_kind(fd)
    finally:
        os.close(fd)
    if system:
        message = (
            f"{path} is on a network file system ({system}): SQLite keeps no file safe there;"
            " use a local directory, or an engine that is made for several machines"
        )
        raise ConfigurationError(message, backend="sqlite")
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise ConfigurationError(f"{path} is not a file: name one in it", backend="sqlite")


def _write_ahead(made: sqlite3.Connection, path: str, until: float) -> None:
    """To begin with that is refused at once, without waiting, while others are doing the same."""
    mode = ""
    while not mode:
        try:
            (mode,) = made.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                (mode,) = made.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if failures.primary_code(error) not in failures.BUSY or time.monotonic() > until:
                raise
            mode = ""
            time.sleep(_SHORT)
    if mode != "wal":
        message = f"{path} is where SQLite cannot keep a write-ahead log (journal_mode {mode})"
        raise ConfigurationError(message, backend="sqlite")


def _check_table(
    made: sqlite3.Connection, settings: Settings, table: str, columns: tuple[str, ...]
) -> None:
    found = tuple(row[1] for row in made.execute(f'PRAGMA table_info("{table}")'))
    if found != columns:
        what = "locks" if table == settings.table else "their history"
        message = (
            f"{settings.path} has something called {table!r} that is not a table of {what}:"
            " choose another name by ?table="
        )
        raise ConfigurationError(message, backend="sqlite")
