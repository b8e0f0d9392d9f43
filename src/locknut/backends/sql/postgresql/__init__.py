"""The PostgreSQL engine: locks between machines, kept as rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.core.ports import Engine
    from locknut.urls import Url

__all__ = ["open_engine"]


def open_engine(url: Url) -> Engine:
    """`postgresql://user@host:port/database`, and `postgres://`."""
    try:
        from locknut.backends.sql.postgresql.engine import open_url
    except ImportError as error:
        message = (
            f"{url.scheme}: URLs need a driver that is not installed ({error.name}); "
            'get it with: pip install "psycopg[binary]>=3.2"'
        )
        raise ConfigurationError(message, backend="postgresql") from error
    return open_url(url)
