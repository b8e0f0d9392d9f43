"""An engine by a driver that blocks, which wakes nobody: all of it but the dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.driver_colours import BlockingConnection, LoopConnection
from locknut.backends.sql.sql_table import Connection, SqlTable
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.transactions import Transactions
from locknut.backends.sql.unrung import Unrung
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.drivers.connection_pool import ConnectionPool
from locknut.drivers.loop_workers import LoopWorkers


class PlainEngine(BaseEngine):
    """One table of one database. `id` names them, the same in every process."""

    def __init__(
        self,
        scheme: str,
        id: str,  # noqa: A002 -- as engines call it
        said: Statements,
        new_pool: Callable[[], ConnectionPool[Any]],
    ):
        self.id = id
        self.schema = "\n".join(f"{each};" for each in said.create)
        self._scheme = scheme
        self._said = said
        self._new_pool = new_pool

    def blocking(self, runtime: Runtime) -> SqlBackend:
        return self._backend(BlockingConnection(Transactions(self._new_pool())), runtime)

    def asyncio(self, runtime: Runtime) -> SqlBackend:
        pool = self._new_pool()
        most, limit = pool.limits.connections, pool.limits.limit
        workers = LoopWorkers(self._scheme, most, limit, pool.all_busy)
        return self._backend(LoopConnection(Transactions(pool), workers), runtime)

    def _backend(self, connection: Connection, runtime: Runtime) -> SqlBackend:
        return SqlBackend(self._scheme, SqlTable(connection, self._said), Unrung(runtime), runtime)
