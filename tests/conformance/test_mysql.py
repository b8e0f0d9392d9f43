"""The MySQL engine keeps the contract, on MariaDB and on MySQL."""

from __future__ import annotations

import pytest

from locknut.testing.conformance import Conformance
from tests.servers.databases import Database


@pytest.mark.mariadb
class TestMariaDb(Conformance):
    @pytest.fixture
    def engine_url(self, mariadb_database: Database) -> str:
        return mariadb_database.url


@pytest.mark.mysql
class TestMySql(Conformance):
    @pytest.fixture
    def engine_url(self, mysql_database: Database) -> str:
        return mysql_database.url
