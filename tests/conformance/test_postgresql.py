"""The PostgreSQL engine keeps the contract, in both colours."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.backends.sql.statements import load
from locknut.testing.conformance import Conformance
from tests.conformance.selections import AroundTheVerbs, EveryVerb
from tests.servers.databases import Database
from tests.servers.pgbouncer import PgBouncer


def least(database: Database) -> Database:
    (made,) = load("postgresql", "locknut_locks").create
    database.ask(made)
    return database.login("worker", "SELECT, INSERT, UPDATE, DELETE ON locknut_locks")


@pytest.mark.postgresql
class TestPostgreSQL(Conformance):
    @pytest.fixture
    def engine_url(self, postgresql_database: Database) -> str:
        return postgresql_database.url


@pytest.mark.postgresql
def test_what_it_declares(postgresql_database: Database) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(postgresql_database.url) as locks:
        missing = {Capability.SESSION, Capability.REPLICATED}
        assert set(Capability) - locks.capabilities == missing


@pytest.mark.postgresql
@pytest.mark.slow
class TestLeastPrivilege(Conformance):
    """A user with the rights of the documentation, who did not make the table."""

    @pytest.fixture
    def engine_url(self, postgresql_database: Database) -> str:
        return least(postgresql_database).url


@pytest.mark.postgresql
@pytest.mark.slow
class TestPgBouncer(Conformance):
    """Through a proxy that lends a session for a transaction."""

    @pytest.fixture
    def engine_url(self, pgbouncer: PgBouncer, postgresql_database: Database) -> str:
        return f"{pgbouncer.url_of(postgresql_database)}?pool_mode=transaction"


MANY = 130
"""Connections: one of the tests holds 120 locks at a time."""


class BySession:
    """With no more rights than lease mode needs."""

    @pytest.fixture
    def engine_url(self, postgresql_database: Database) -> str:
        return f"{least(postgresql_database).url}?mode=session&connections={MANY}"


@pytest.mark.postgresql
class TestSessionMode(BySession, EveryVerb):
    pass


@pytest.mark.postgresql
@pytest.mark.slow
class TestSessionModeFurther(BySession, AroundTheVerbs):
    pass


@pytest.mark.postgresql
def test_what_session_mode_declares(postgresql_database: Database) -> None:
    with locknut.connect(f"{postgresql_database.url}?mode=session") as locks:
        assert locks.capabilities == {
            Capability.DOWNGRADE,
            Capability.FENCING,
            Capability.LEASE,
            Capability.NO_EVICTION,
            Capability.SESSION,
            Capability.SHARED,
            Capability.WAKE_UP,
        }
