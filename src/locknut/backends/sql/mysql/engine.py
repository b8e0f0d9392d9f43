"""From a URL to the MySQL engine, in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from locknut.backends.sql import statements, table_options
from locknut.backends.sql.mysql.aio import LoopConnection
from locknut.backends.sql.mysql.backend import MySqlBackend
from locknut.backends.sql.mysql.bell_chain import BellChain
from locknut.backends.sql.mysql.literals import completed
from locknut.backends.sql.mysql.mysql_table import MySqlTable
from locknut.backends.sql.mysql.sync import BlockingConnection
from locknut.backends.sql.sql_table import Connection
from locknut.core import validation
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.drivers.mysql import settings
from locknut.drivers.mysql.session_pool import SessionPool
from locknut.drivers.mysql.settings import Settings

if TYPE_CHECKING:
    from locknut.urls import Url

_MODES: Final = ("lease",)


class MySqlEngine(BaseEngine):
    """One table of one database."""

    def __init__(self, told: Settings, table: str):
        self._settings = told
        self._table = table
        self.id = f"mysql:{told.database}/{table}"
        self._statements = completed(statements.load("mysql", f"`{table}`"))
        self.schema = self._statements.schema
        self._chain = BellChain(told)

    def blocking(self, runtime: Runtime) -> MySqlBackend:
        pool = self._pool()
        return self._backend(BlockingConnection(pool), pool, runtime)

    def asyncio(self, runtime: Runtime) -> MySqlBackend:
        pool = self._pool()
        return self._backend(LoopConnection(pool), pool, runtime)

    def _backend(self, connection: Connection, pool: SessionPool, runtime: Runtime) -> MySqlBackend:
        table = MySqlTable(connection, self._statements)
        return MySqlBackend(self._settings.scheme, table, self._chain, runtime, pool.hung_up)

    def _pool(self) -> SessionPool:
        return SessionPool(self._settings, self._table, ";".join(self._statements.create))

    def anew(self) -> MySqlEngine:
        return MySqlEngine(self._settings, self._table)


def open_url(url: Url) -> MySqlEngine:
    known = (*table_options.OPTIONS, *settings.OPTIONS, "mode")
    validation.check_options(url.scheme, url.options, known)
    mode = url.options.get("mode", _MODES[0])
    if mode not in _MODES:
        raise settings.wrong(url, f"mode={mode!r}: expected {' or '.join(_MODES)}")
    table = table_options.table_name(url.scheme, url.options)
    limit = table_options.limit(url.scheme, url.options)
    return MySqlEngine(settings.read(url, limit), table)
