"""From settings to the SQLite engine: each backend has a connection of its own to the file."""

from __future__ import annotations

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.sql_table import Connection, SqlTable
from locknut.backends.sql.sqlite.fifo_bells import FifoBells
from locknut.backends.sql.sqlite.settings import Settings
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.backends.sql.sqlite.sync import BlockingConnection
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime


class SqliteEngine(BaseEngine):
    """One table of one file."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self.id = settings.place
        self.schema = settings.statements.schema

    def blocking(self, runtime: Runtime) -> SqlBackend:
        file = SqliteFile(self._settings, runtime.now)
        return self._backend(BlockingConnection(file, self._settings.limit), runtime)

    def asyncio(self, runtime: Runtime) -> SqlBackend:
        from locknut.backends.sql.sqlite.aio import AsyncioConnection  # blocking programs need none

        file = SqliteFile(self._settings, runtime.now)
        return self._backend(AsyncioConnection(file, self._settings.limit), runtime)

    def _backend(self, connection: Connection, runtime: Runtime) -> SqlBackend:
        table = SqlTable(connection, self._settings.statements)
        bells = FifoBells(self._settings.path, runtime)
        return SqlBackend("sqlite", table, bells, runtime)
