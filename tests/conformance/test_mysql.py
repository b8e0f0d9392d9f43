"""The MySQL engine keeps the contract, on both servers, with no more rights than it needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from locknut.core.values import Capability
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance import Conformance
from locknut.urls import open_engine
from tests.conformance.selections import ESSENTIALS, EVERY_VERB
from tests.contracts.sources import ROOT
from tests.servers.databases import Database

PAGE: Path = ROOT / "docs" / "engines" / "mysql.md"


def least(database: Database) -> Database:
    """As the page says: an administrator makes the tables, and grants four rights on each."""
    grants = []
    for sql in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL):
        create, grant = (each.strip() for each in sql.split(";") if each.strip())
        database.ask(create)
        rights = re.fullmatch(r"GRANT (.*) ON myapp\.(\w+) TO 'user'@'%'", grant)
        assert rights is not None
        grants.append(f"{rights[1]} ON {database.name}.{rights[2]}")
    return database.login("least", *grants)


@pytest.mark.mariadb
class TestMariaDb(Conformance):
    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, mariadb_database: Database) -> str:
        return least(mariadb_database).url


@pytest.mark.mysql
class TestMySql(Conformance):
    quick = EVERY_VERB

    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, mysql_database: Database) -> str:
        return least(mysql_database).url


MANY = 130
"""Connections: one of the tests holds 120 locks at a time."""


@pytest.mark.mariadb
class TestMariaDbSessionMode(Conformance):
    quick = EVERY_VERB

    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, mariadb_database: Database) -> str:
        return f"{least(mariadb_database).url}?mode=session&connections={MANY}"


@pytest.mark.mysql
class TestMySqlSessionMode(Conformance):
    quick = ESSENTIALS

    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, mysql_database: Database) -> str:
        return f"{least(mysql_database).url}?mode=session&connections={MANY}"


def test_what_session_mode_declares() -> None:
    engine, _ = open_engine("mysql://localhost/locks?mode=session")
    backend = engine.blocking(ThreadRuntime())
    assert backend.capabilities == {
        Capability.DOWNGRADE,
        Capability.FENCING,
        Capability.HISTORY,
        Capability.LEASE,
        Capability.NO_EVICTION,
        Capability.SESSION,
        Capability.SHARED,
        Capability.WAKE_UP,
    }
    assert backend.default_ttl == 10


def test_what_it_declares() -> None:
    engine, _ = open_engine("mysql://localhost/locks")
    backend = engine.blocking(ThreadRuntime())
    assert backend.capabilities == frozenset(Capability) - {
        Capability.SESSION,
        Capability.REPLICATED,
    }
    assert backend.default_ttl == 30
    assert (backend.min_ttl, backend.max_ttl) == (0.1, 30 * 86400)
