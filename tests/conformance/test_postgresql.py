"""The PostgreSQL engine keeps the contract, in both colours."""

from __future__ import annotations

import re

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from tests.conformance.selections import EVERY_VERB
from tests.contracts.sources import ROOT
from tests.servers.databases import Database
from tests.servers.pgbouncer import PgBouncer

PAGE = ROOT / "docs" / "engines" / "postgresql.md"


def least(database: Database) -> Database:
    """As the page says: an administrator makes the tables, and grants four rights on each."""
    grants = []
    for sql in re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL):
        create, grant = (each.strip() for each in sql.split(";") if each.strip())
        database.ask(create)
        rights = re.fullmatch(r"GRANT (.*) TO worker", grant)
        assert rights is not None
        grants.append(rights[1])
    return database.login("worker", *grants)


@pytest.mark.postgresql
class TestPostgreSQL(Conformance):
    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, postgresql_database: Database) -> str:
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

    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, postgresql_database: Database) -> str:
        return least(postgresql_database).url


@pytest.mark.postgresql
@pytest.mark.slow
class TestPgBouncer(Conformance):
    """Through a proxy that lends a session for a transaction."""

    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, pgbouncer: PgBouncer, postgresql_database: Database) -> str:
        return f"{pgbouncer.url_of(postgresql_database)}?pool_mode=transaction"


MANY = 130
"""Connections: one of the tests holds 120 locks at a time."""


@pytest.mark.postgresql
class TestSessionMode(Conformance):
    """With no more rights than lease mode needs."""

    quick = EVERY_VERB

    @pytest.fixture(scope="class")
    @classmethod
    def engine_url(cls, postgresql_database: Database) -> str:
        return f"{least(postgresql_database).url}?mode=session&connections={MANY}"


@pytest.mark.postgresql
def test_what_session_mode_declares(postgresql_database: Database) -> None:
    with locknut.connect(f"{postgresql_database.url}?mode=session") as locks:
        assert locks.capabilities == {
            Capability.DOWNGRADE,
            Capability.FENCING,
            Capability.HISTORY,
            Capability.LEASE,
            Capability.NO_EVICTION,
            Capability.SESSION,
            Capability.SHARED,
            Capability.WAKE_UP,
        }
