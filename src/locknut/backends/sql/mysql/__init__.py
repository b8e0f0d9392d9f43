"""The MySQL engine: a table of locks in a MySQL or MariaDB database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.backends.sql.mysql.engine import MySqlEngine
    from locknut.urls import Url

__all__ = ["open_engine"]


def open_engine(url: Url) -> MySqlEngine:
    """`mysql://user:password@host:3306/database`, and `mariadb://`."""
    try:
        from locknut.backends.sql.mysql.engine import open_url
    except ImportError as error:
        message = (
            f"{url.scheme}: URLs need a driver that is not installed ({error.name}); "
            'get it with: pip install "PyMySQL[rsa]>=1.1,<1.3"'
        )
        raise ConfigurationError(message, backend=url.scheme) from error
    return open_url(url)
