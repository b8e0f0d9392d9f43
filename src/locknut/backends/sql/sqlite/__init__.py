"""The SQLite engine: a table in a file, for the processes of one machine; no server, no driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.backends.sql.sqlite.engine import SqliteEngine
    from locknut.urls import Url

__all__ = ["open_engine"]


def open_engine(url: Url) -> SqliteEngine:
    """`sqlite:///path/locks.db`, with `?table=` and `?timeout=`."""
    try:
        from locknut.backends.sql.sqlite import settings
        from locknut.backends.sql.sqlite.engine import SqliteEngine
    except ImportError as error:
        message = f"this Python was built without sqlite3 ({error.name})"
        raise ConfigurationError(message, backend="sqlite") from error
    return SqliteEngine(settings.from_url(url))
