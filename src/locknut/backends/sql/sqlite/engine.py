"""From settings to the SQLite engine: each backend has a connection of its own to the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.sqlite.fifo_bells import FifoBells
from locknut.backends.sql.sqlite.file_table import FileConnection, FileTable
from locknut.backends.sql.sqlite.settings import Settings
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.backends.sql.sqlite.sync import BlockingConnection
from locknut.backends.sql.statements import schema
from locknut.core.base import BaseEngine
from locknut.core.findings import Check
from locknut.core.ports import Runtime

if TYPE_CHECKING:
    from locknut.backends.sql.history_table import HistoryTable

Colour = Callable[[SqliteFile, float], FileConnection]
"""What makes a connection of a file, with the time that a command may take."""


class SqliteEngine(BaseEngine):
    """One table of one file."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self.id = settings.place
        self.schema = schema("sqlite", f'"{settings.table}"')

    def blocking(self, runtime: Runtime) -> SqlBackend:
        return self._backend(BlockingConnection, runtime)

    def asyncio(self, runtime: Runtime) -> SqlBackend:
        from locknut.backends.sql.sqlite.aio import AsyncioConnection  # blocking programs need none

        return self._backend(AsyncioConnection, runtime)

    def _backend(self, colour: Colour, runtime: Runtime) -> SqlBackend:
        file = SqliteFile(self._settings, runtime.now)
        table = FileTable(colour(file, self._settings.limit), self._settings.statements)
        bells = FifoBells(self._settings.path, runtime)
        backend = SqlBackend("sqlite", table, bells, runtime)
        backend.checks = lambda prefix: _examined(self._settings.path)  # type: ignore[method-assign]  # noqa: ARG005 -- one table for all
        backend.keep_history(lambda: self._history(colour, runtime))
        return backend

    def _history(self, colour: Colour, runtime: Runtime) -> HistoryTable:
        from locknut.backends.sql.history_table import HistoryTable  # few programs keep one

        file = SqliteFile(replace(self._settings, history=True), runtime.now)
        said = self._settings.history_statements
        return HistoryTable(colour(file, self._settings.limit), said, runtime.random)


def _examined(path: str) -> list[Check]:
    from locknut.backends.sql.sqlite import checkup  # few programs need it

    return checkup.checks(path)
