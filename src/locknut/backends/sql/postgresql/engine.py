"""From a URL to the PostgreSQL engine, in both colours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from locknut.backends.sql import table_options
from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.postgresql.advisory_locks import AdvisorySessions
from locknut.backends.sql.postgresql.backend import PostgresBackend, examined
from locknut.backends.sql.postgresql.lock_table import LockTable
from locknut.backends.sql.postgresql.table_questions import Line, Questions
from locknut.backends.sql.session.backend import SessionBackend
from locknut.backends.sql.session.claim_sessions import ClaimSessions
from locknut.backends.sql.statements import load, load_history, schema
from locknut.core import validation
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.drivers.postgresql import settings
from locknut.drivers.postgresql.aio import LoopLine
from locknut.drivers.postgresql.primary import Primary
from locknut.drivers.postgresql.session_pool import SessionPool
from locknut.drivers.postgresql.settings import NAME, Settings
from locknut.drivers.postgresql.sync import BlockingLine
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.backends.sql.history_table import HistoryTable
    from locknut.urls import Url


COMMANDS: Final = 2
"""Connections of a Locks in session mode, keeper and callers, beside those that have locks."""


class PostgresEngine(BaseEngine):
    """One table of one database."""

    def __init__(self, wanted: Settings, table: str, *, by_session: bool = False):
        self._settings = wanted
        self._table = table
        self._by_session = by_session
        self._primary = Primary(pooled=wanted.pool_mode == "transaction")
        self._claims = ClaimSessions()
        self._commands = SessionPool(replace(wanted, connections=COMMANDS), self._primary)
        """In session mode: for what is not said by the session of a lock itself."""
        self.id = f"{NAME}:{wanted.place}"
        self.schema = schema(NAME, table)
        """What an administrator runs where we have no right to make the table."""

    def blocking(self, runtime: Runtime) -> SqlBackend:
        return self._backend(BlockingLine, runtime)

    def asyncio(self, runtime: Runtime) -> SqlBackend:
        return self._backend(LoopLine, runtime)

    def _backend(self, colour: Callable[[SessionPool], Line], runtime: Runtime) -> SqlBackend:
        backend = self._of_mode(colour, runtime)
        backend.keep_history(lambda: self._history(colour, runtime))
        return backend

    def _of_mode(self, colour: Callable[[SessionPool], Line], runtime: Runtime) -> SqlBackend:
        line = colour(SessionPool(self._settings, self._primary))
        if not self._by_session:
            return PostgresBackend(line, self._table, runtime)
        statements = load(NAME, self._table)
        questions = Questions(colour(self._commands), self._table, statements.create)
        table = LockTable(questions, statements, self._table)
        sessions = AdvisorySessions(line, questions, statements, self._table)
        backend = SessionBackend(NAME, table, sessions, self._claims, runtime)
        backend.checks = lambda prefix: examined(questions, self._primary, self._table)  # type: ignore[method-assign]  # noqa: ARG005 -- one table for all
        return backend

    def _history(self, colour: Callable[[SessionPool], Line], runtime: Runtime) -> HistoryTable:
        from locknut.backends.sql.history_table import HistoryTable  # few programs keep one
        from locknut.backends.sql.postgresql.plain_connection import PlainConnection

        said = load_history(NAME, self._table)
        line = colour(SessionPool(replace(self._settings, connections=1), self._primary))
        questions = Questions(line, table_options.history_table(self._table), said.create)
        return HistoryTable(PlainConnection(questions), said, runtime.random)

    def anew(self) -> PostgresEngine:
        """What was learned of the servers is the parent's, and its mutex may be held there."""
        return PostgresEngine(self._settings, self._table, by_session=self._by_session)


def open_url(url: Url) -> PostgresEngine:
    """The engine for `postgresql://` and `postgres://`."""
    known = (*table_options.SERVER_OPTIONS, *settings.OPTIONS)
    validation.check_options(NAME, url.options, (*known, *settings.libpq_options()))
    options = dict(url.options)
    mode = table_options.mode(NAME, options)
    table, limit = table_options.table_name(NAME, options), table_options.limit(NAME, options)
    rest = {key: options[key] for key in options if key not in table_options.SERVER_OPTIONS}
    driver_url = type(url)(url.scheme, url.netloc, url.path, rest)
    wanted = settings.read(driver_url, limit)
    by_session = mode == "session"
    if by_session and wanted.pool_mode == "transaction":
        message = "mode=session needs sessions of its own: not with pool_mode=transaction"
        raise ConfigurationError(message, backend=NAME)
    return PostgresEngine(wanted, f'"{table}"', by_session=by_session)
