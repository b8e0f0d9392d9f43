"""From a URL to the MySQL engine, in both colours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from locknut.backends.sql import statements
from locknut.backends.sql.mysql.aio import LoopConnection
from locknut.backends.sql.mysql.backend import MySqlBackend
from locknut.backends.sql.mysql.bell_chain import BellChain
from locknut.backends.sql.mysql.literals import completed
from locknut.backends.sql.mysql.mysql_table import MySqlTable
from locknut.backends.sql.mysql.sync import BlockingConnection
from locknut.core import validation
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.drivers.mysql import settings
from locknut.drivers.mysql.session_pool import SessionPool
from locknut.drivers.mysql.settings import Settings

if TYPE_CHECKING:
    from locknut.urls import Url

TABLE: Final = "locknut_locks"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_MODES: Final = ("lease",)


class MySqlEngine(BaseEngine):
    """One table of one database."""

    def __init__(self, told: Settings, table: str):
        self._settings = told
        self._table = table
        self.id = f"mysql:{told.database}/{table}"
        self._statements = completed(statements.load("mysql", f"`{table}`"))
        self._chain = BellChain(told)

    def blocking(self, runtime: Runtime) -> MySqlBackend:
        pool = self._pool()
        return self._backend(BlockingConnection(pool), runtime, pool, blocks=True)

    def asyncio(self, runtime: Runtime) -> MySqlBackend:
        pool = self._pool()
        return self._backend(LoopConnection(pool), runtime, pool, blocks=False)

    def _backend(
        self,
        connection: BlockingConnection | LoopConnection,
        runtime: Runtime,
        pool: SessionPool,
        *,
        blocks: bool,
    ) -> MySqlBackend:
        table = MySqlTable(connection, self._statements)
        inside = pool.inside if blocks else bool
        name = self._settings.scheme
        return MySqlBackend(name, table, self._chain, runtime, inside, pool.hung_up)

    def _pool(self) -> SessionPool:
        return SessionPool(self._settings, self._table, ";".join(self._statements.create))

    def anew(self) -> MySqlEngine:
        return MySqlEngine(self._settings, self._table)


def open_url(url: Url) -> MySqlEngine:
    validation.check_options(url.scheme, url.options, (*settings.OPTIONS, "table", "mode"))
    options = dict(url.options)
    table, mode = options.pop("table", TABLE), options.pop("mode", _MODES[0])
    if not _NAME.fullmatch(table):
        raise settings.wrong(url, f"table={table!r} is not a plain name: letters, digits and _")
    if mode not in _MODES:
        raise settings.wrong(url, f"mode={mode!r}: expected {' or '.join(_MODES)}")
    return MySqlEngine(settings.read(type(url)(url.scheme, url.netloc, url.path, options)), table)
