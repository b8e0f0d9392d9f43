"""From a URL to the MySQL engine, in both colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from locknut.backends.sql import statements, table_options
from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.mysql import packets
from locknut.backends.sql.mysql.backend import MySqlBackend
from locknut.backends.sql.mysql.bell_chain import BellChain
from locknut.backends.sql.mysql.literals import completed
from locknut.backends.sql.mysql.mysql_table import MySqlTable, WorkingConnection
from locknut.backends.sql.mysql.named_lock_session import KNOWN
from locknut.backends.sql.mysql.named_locks import NamedLockSessions
from locknut.backends.sql.session.backend import SessionBackend
from locknut.backends.sql.session.claim_sessions import ClaimSessions
from locknut.backends.sql.sql_table import Connection
from locknut.core import validation
from locknut.core.base import BaseEngine
from locknut.core.findings import Check
from locknut.core.ports import Runtime
from locknut.drivers.loop_workers import LoopWorkers
from locknut.drivers.mysql import settings
from locknut.drivers.mysql.kept_sessions import KeptSessions
from locknut.drivers.mysql.session_pool import SessionPool
from locknut.drivers.mysql.settings import Settings

if TYPE_CHECKING:
    from locknut.backends.sql.history_table import HistoryTable
    from locknut.urls import Url

COMMANDS: Final = 2
"""Connections of a Locks in session mode, keeper and callers, beside those that have locks."""


class MySqlEngine(BaseEngine):
    """One table of one database."""

    def __init__(self, told: Settings, table: str, *, by_session: bool = False):
        self._settings = told
        self._table = table
        self._by_session = by_session
        self._claims = ClaimSessions()
        self.id = f"mysql:{told.database}/{table}"
        self._statements = completed(statements.load("mysql", f"`{table}`"))
        at_gate = completed(statements.load("mysql", f"`{table}`", KNOWN))
        (self._enter_known,) = at_gate.take_known
        self.schema = statements.schema("mysql", f"`{table}`")
        self._chain = BellChain(told)
        self._commands = self._new_pool(replace(told, connections=COMMANDS))
        """In session mode: for what is not said by the connection of a lock itself."""

    def blocking(self, runtime: Runtime) -> SqlBackend:
        pool = self._pool()
        backend = self._backend(packets.blocking(pool), pool, runtime, None)
        backend.keep_history(lambda: self._history(packets.blocking, runtime))
        return backend

    def asyncio(self, runtime: Runtime) -> SqlBackend:
        pool = self._pool()
        backend = self._backend(packets.for_loop(pool), pool, runtime, packets.workers(pool))
        backend.keep_history(lambda: self._history(packets.for_loop, runtime))
        return backend

    def _history(
        self, colour: Callable[[SessionPool], Connection], runtime: Runtime
    ) -> HistoryTable:
        from locknut.backends.sql.history_table import HistoryTable  # few programs keep one

        said = completed(statements.load_history("mysql", f"`{self._table}`"))
        name = table_options.history_table(self._table)
        pool = SessionPool(replace(self._settings, connections=1), name, ";".join(said.create))
        return HistoryTable(colour(pool), said, runtime.random)

    def _backend(
        self,
        connection: WorkingConnection,
        pool: SessionPool,
        runtime: Runtime,
        workers: LoopWorkers | None,
    ) -> SqlBackend:
        backend = self._of_mode(connection, pool, runtime, workers)
        backend.checks = lambda prefix: _examined(pool, self._table)  # type: ignore[method-assign]  # noqa: ARG005 -- one table for all
        return backend

    def _of_mode(
        self,
        connection: WorkingConnection,
        pool: SessionPool,
        runtime: Runtime,
        workers: LoopWorkers | None,
    ) -> SqlBackend:
        scheme = self._settings.scheme
        table = MySqlTable(connection, self._statements, self._chain)
        if not self._by_session:
            return MySqlBackend(scheme, table, self._chain, runtime, pool.hung_up)
        place = f"{self._settings.database}.{self._table}"
        kept = KeptSessions(self._settings)
        said, enter_known = self._statements, self._enter_known
        sessions = NamedLockSessions(kept, pool, said, enter_known, workers, place)
        return SessionBackend(scheme, table, sessions, self._claims, runtime)

    def _pool(self) -> SessionPool:
        return self._commands if self._by_session else self._new_pool(self._settings)

    def _new_pool(self, settings: Settings) -> SessionPool:
        return SessionPool(settings, self._table, ";".join(self._statements.create))

    def anew(self) -> MySqlEngine:
        return MySqlEngine(self._settings, self._table, by_session=self._by_session)


def _examined(pool: SessionPool, table: str) -> list[Check]:
    from locknut.backends.sql.mysql import checkup  # few programs need it

    return checkup.checks(pool, table)


def open_url(url: Url) -> MySqlEngine:
    known = (*table_options.SERVER_OPTIONS, *settings.OPTIONS)
    validation.check_options(url.scheme, url.options, known)
    mode = table_options.mode(url.scheme, url.options)
    table = table_options.table_name(url.scheme, url.options)
    limit = table_options.limit(url.scheme, url.options)
    return MySqlEngine(settings.read(url, limit), table, by_session=mode == "session")
