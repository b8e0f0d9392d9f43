"""The MySQL engine keeps the contract, on both servers, with no more rights than it needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from locknut.core.values import Capability
from locknut.runtimes.threads import ThreadRuntime
from locknut.testing.conformance import Conformance
from locknut.urls import open_engine
from tests.conformance.selections import AroundTheVerbs, EveryVerb
from tests.contracts.sources import ROOT
from tests.servers.databases import Database

PAGE: Path = ROOT / "docs" / "engines" / "mysql.md"


def least(database: Database) -> Database:
    """As the page says: an administrator makes the table, and grants four rights on it."""
    sql = re.search(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert sql is not None
    create, grant = (each.strip() for each in sql[1].split(";") if each.strip())
    database.ask(create)
    rights = re.fullmatch(r"GRANT (.*) ON myapp\.(\w+) TO 'user'@'%'", grant)
    assert rights is not None
    return database.login("least", f"{rights[1]} ON {database.name}.{rights[2]}")


@pytest.mark.mariadb
class TestMariaDb(Conformance):
    @pytest.fixture
    def engine_url(self, mariadb_database: Database) -> str:
        return least(mariadb_database).url


class OnMySql:
    @pytest.fixture
    def engine_url(self, mysql_database: Database) -> str:
        return least(mysql_database).url


@pytest.mark.mysql
class TestMySql(OnMySql, EveryVerb):
    pass


@pytest.mark.mysql
@pytest.mark.slow
class TestMySqlFurther(OnMySql, AroundTheVerbs):
    pass


MANY = 130
"""Connections: one of the tests holds 120 locks at a time."""


class OnMariaDbBySession:
    @pytest.fixture
    def engine_url(self, mariadb_database: Database) -> str:
        return f"{least(mariadb_database).url}?mode=session&connections={MANY}"


class OnMySqlBySession:
    @pytest.fixture
    def engine_url(self, mysql_database: Database) -> str:
        return f"{least(mysql_database).url}?mode=session&connections={MANY}"


@pytest.mark.mariadb
class TestMariaDbSessionMode(OnMariaDbBySession, EveryVerb):
    pass


@pytest.mark.mysql
class TestMySqlSessionMode(OnMySqlBySession, EveryVerb):
    pass


@pytest.mark.mariadb
@pytest.mark.slow
class TestMariaDbSessionModeFurther(OnMariaDbBySession, AroundTheVerbs):
    pass


@pytest.mark.mysql
@pytest.mark.slow
class TestMySqlSessionModeFurther(OnMySqlBySession, AroundTheVerbs):
    pass


def test_what_session_mode_declares() -> None:
    engine, _ = open_engine("mysql://localhost/locks?mode=session")
    backend = engine.blocking(ThreadRuntime())
    assert backend.capabilities == {
        Capability.DOWNGRADE,
        Capability.FENCING,
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
