"""Session mode needs connections of its own."""

from __future__ import annotations

import pytest

import locknut
from locknut.errors import ConfigurationError
from tests.backends.mysql.sharing_proxy import shared
from tests.servers.databases import Database

pytestmark = pytest.mark.mariadb


def test_a_proxy_that_shares_connections_is_refused(mariadb_database: Database) -> None:
    with shared(mariadb_database) as port:
        url = f"{mariadb_database.url_through(port)}?mode=session"
        with (
            locknut.connect(url) as locks,
            pytest.raises(ConfigurationError, match="a proxy that shares them"),
        ):
            locks.lock("x").acquire(timeout=5)
