"""From a URL to the PostgreSQL engine, in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.backends.sql import table_options
from locknut.backends.sql.postgresql.backend import PostgresBackend
from locknut.backends.sql.statements import load
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
    from locknut.urls import Url


class PostgresEngine(BaseEngine):
    """One table of one database."""

    def __init__(self, wanted: Settings, table: str):
        self._settings = wanted
        self._table = table
        self._primary = Primary(pooled=wanted.pool_mode == "transaction")
        self.id = f"{NAME}:{wanted.place}"
        self.schema = "\n".join(f"{each};" for each in load(NAME, table).create)
        """What an administrator runs where we have no right to make the table."""

    def blocking(self, runtime: Runtime) -> PostgresBackend:
        return PostgresBackend(BlockingLine(self._pool()), self._table, runtime)

    def asyncio(self, runtime: Runtime) -> PostgresBackend:
        return PostgresBackend(LoopLine(self._pool()), self._table, runtime)

    def anew(self) -> PostgresEngine:
        """What was learned of the servers is the parent's, and its mutex may be held there."""
        return PostgresEngine(self._settings, self._table)

    def _pool(self) -> SessionPool:
        return SessionPool(self._settings, self._primary)


def open_url(url: Url) -> PostgresEngine:
    """The engine for `postgresql://` and `postgres://`."""
    known = (*table_options.OPTIONS, *settings.OPTIONS, "mode")
    validation.check_options(NAME, url.options, (*known, *settings.libpq_options()))
    options = dict(url.options)
    mode = options.pop("mode", "lease")
    if mode != "lease":
        raise ConfigurationError(f"mode must be lease, or not be given; got {mode!r}", backend=NAME)
    table, limit = table_options.table_name(NAME, options), table_options.limit(NAME, options)
    rest = {key: options[key] for key in options if key not in table_options.OPTIONS}
    driver_url = type(url)(url.scheme, url.netloc, url.path, rest)
    return PostgresEngine(settings.read(driver_url, limit), f'"{table}"')
