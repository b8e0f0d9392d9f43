"""What the conformance runs of every engine have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.databases import Database
from tests.servers.mysql import MariaServer, MySqlServer
from tests.servers.postgresql import PostgresServer


@pytest.fixture(autouse=True)
def _nobody_in_a_hurry(patient_callers: None) -> None:
    """The contract is not about hanging servers: each engine's own `test_hanging.py` is."""


# One database is for a whole suite, with its tables: the tests keep apart by their namespaces.


@pytest.fixture(scope="class")
def postgresql_database(postgresql_server: PostgresServer) -> Iterator[Database]:
    with postgresql_server.database() as database:
        yield database


@pytest.fixture(scope="class")
def mariadb_database(mariadb_server: MariaServer) -> Iterator[Database]:
    with mariadb_server.database() as database:
        yield database


@pytest.fixture(scope="class")
def mysql_database(mysql_server: MySqlServer) -> Iterator[Database]:
    with mysql_server.database() as database:
        yield database


def pytest_itemcollected(item: pytest.Item) -> None:
    """Of a suite that says what is `quick`, the rest is slow: it belongs to `make test-all`."""
    if not isinstance(item, pytest.Function) or item.cls is None or not hasattr(item.cls, "quick"):
        return
    if not any(item.originalname in vars(part) for part in item.cls.quick):
        item.add_marker(pytest.mark.slow)
