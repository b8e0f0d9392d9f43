"""The private PgBouncer hands every transaction to any connection of its pool, and goes."""

from __future__ import annotations

from contextlib import closing

import psycopg
import pytest

from tests.servers.databases import Database
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgresql import PostgresServer
from tests.servers.processes import exists

pytestmark = pytest.mark.postgresql
WHO = "SELECT pg_backend_pid()"


def test_a_session_is_not_the_same_from_one_transaction_to_the_next(
    pgbouncer: PgBouncer, postgresql_database: Database
) -> None:
    url = pgbouncer.url_of(postgresql_database)
    assert url != postgresql_database.url
    with (
        closing(psycopg.connect(url, autocommit=True)) as one,
        closing(psycopg.connect(url, autocommit=True)) as another,
    ):
        (first,) = one.execute(WHO).fetchone() or (0,)
        with another.transaction():
            assert another.execute(WHO).fetchone() == (first,), "two clients, one connection"
            assert one.execute(WHO).fetchone() != (first,), "one client, two connections"


def test_it_leaves_no_process(postgresql_server: PostgresServer) -> None:
    with PgBouncer(postgresql_server, mode="session") as pool:
        pid = pool.pid
        pool.kill()
        pool.start()
        assert pool.pid != pid
        pid = pool.pid
        pool.stop()
    assert not exists(pid)
    assert not pool.folder.exists()
