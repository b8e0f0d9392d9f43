"""What `doctor` finds at a PostgreSQL: each check beside a server that is set up just so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

import locknut
from locknut.backends.sql.postgresql import checkup
from tests.checkups import FAIL, OK, WARN, another_clock, examine, user_without
from tests.servers.databases import USER, Database
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgresql import PostgresServer
from tests.servers.rewriting import Rewriting

pytestmark = pytest.mark.postgresql
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])
both_modes = pytest.mark.parametrize("mode", ["lease", "session"])


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Set as it should be; a test that sets it otherwise sets it back."""
    more = {"fsync": "on", "autovacuum": "on"}
    with PostgresServer(connections=30, more=more) as running:
        yield running


@pytest.fixture
def database(server: PostgresServer) -> Iterator[Database]:
    with server.database() as made:
        yield made


@contextmanager
def set_to(server: PostgresServer, name: str, value: str) -> Iterator[None]:
    """With this setting for a while; what is given on the command line is stronger, so it is set
    for the role.
    """
    server.ask(f"ALTER ROLE {USER} SET {name} = {value}")
    try:
        yield
    finally:
        server.ask(f"ALTER ROLE {USER} RESET {name}")


@both_colours
@both_modes
def test_a_server_as_it_should_be(database: Database, colour: str, mode: str) -> None:
    found = examine(f"{database.url}?mode={mode}", colour)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 12


def test_the_version(database: Database) -> None:
    ((number,),) = database.ask("SHOW server_version_num")
    old = str(number).encode()
    with Rewriting((database.server.host, database.server.port), old, b"110" + old[3:]) as proxy:
        found = examine(f"{database.url_through(proxy.port)}?sslmode=disable")
    assert found["postgresql-version"].severity is FAIL


@pytest.mark.slow
@both_colours
def test_a_server_that_waits_for_nothing(colour: str) -> None:
    """As the tests start it: it does not wait for its disk, and nobody cleans up."""
    with PostgresServer() as careless, careless.database() as database:
        found = examine(database.url, colour)
    assert found["postgresql-durability"].severity is FAIL
    assert found["postgresql-vacuum"].severity is WARN
    assert found["usable"].severity is OK


@both_colours
@both_modes
def test_transactions_that_are_cut(
    server: PostgresServer, database: Database, colour: str, mode: str
) -> None:
    with set_to(server, "idle_in_transaction_session_timeout", "'5s'"):
        finding = examine(f"{database.url}?mode={mode}", colour)["postgresql-transactions"]
    assert finding.severity is WARN
    assert "5 s" in finding.found


@both_colours
def test_connections_near_the_limit(
    server: PostgresServer, database: Database, colour: str
) -> None:
    with ExitStack() as open_now:
        for _ in range(24):
            open_now.enter_context(closing(server.connect(database.name)))
        finding = examine(database.url, colour)["postgresql-connections"]
    assert finding.severity is WARN
    assert "of 30 connections that the server allows" in finding.found


@pytest.mark.parametrize(
    ("limit", "whose"), [("DATABASE {0}", "the database"), ("ROLE {1}", "the user")]
)
def test_a_limit_of_its_own(
    server: PostgresServer, database: Database, limit: str, whose: str
) -> None:
    user = database.login("few", f"ALL ON DATABASE {database.name}", "ALL ON SCHEMA public")
    database.ask(f"ALTER {limit.format(database.name, user.user)} CONNECTION LIMIT 3")
    with ExitStack() as open_now:
        for _ in range(2):
            settings = {"user": user.user, "password": user.password, "host": server.host}
            open_now.enter_context(closing(server.connect(database.name, **settings)))
        finding = examine(f"{user.url}?connections=1")["postgresql-connections"]
    assert finding.severity is WARN
    assert f"of 3 connections that {whose} allows" in finding.found


@both_colours
def test_a_proxy_that_lends_sessions(
    database: Database, server: PostgresServer, colour: str
) -> None:
    with PgBouncer(server) as pool:
        found = examine(pool.url_of(database), colour)
    assert found["postgresql-pool"].severity is WARN
    assert found["usable"].severity is OK
    assert found["postgresql-table"].severity is OK


@both_colours
@pytest.mark.parametrize(
    ("lacking", "severity"), [("DELETE", WARN), ("UPDATE", FAIL), ("SELECT", FAIL)]
)
def test_rights_on_the_table(database: Database, colour: str, lacking: str, severity: str) -> None:
    few = user_without(lacking, database)
    finding = examine(few, colour)["postgresql-table"]
    assert finding.severity == severity
    assert f"GRANT {lacking}" in finding.advice


@both_colours
def test_a_table_that_a_crash_empties(database: Database, colour: str) -> None:
    with locknut.connect(database.url) as locks:
        locks.ping(timeout=60)
    database.ask("ALTER TABLE locknut_locks SET UNLOGGED")
    finding = examine(database.url, colour)["postgresql-table"]
    assert finding.severity is WARN
    assert "not logged" in finding.found


@both_colours
def test_a_server_that_refuses_to_write(
    server: PostgresServer, database: Database, colour: str
) -> None:
    server.read_only(on=True)
    try:
        found = examine(database.url, colour)
    finally:
        server.read_only(on=False)
    assert FAIL in {found["usable"].severity, found["reachable"].severity}


@contextmanager
def standby(server: PostgresServer) -> Iterator[None]:
    """Whoever asks for the log as it is written counts as a standby."""
    from psycopg import pq

    with (server.data / "pg_hba.conf").open("a") as rules:
        rules.write("local replication postgres trust\n")
    server.ask("SELECT pg_reload_conf()")
    settings = {"host": str(server.sockets), "port": server.port, "user": "postgres"}
    text = " ".join(f"{name}={value}" for name, value in settings.items())
    text += " dbname=postgres replication=true application_name=follower"
    wires: list[Any] = []

    def connected() -> bool:
        wires.append(pq.PGconn.connect(text.encode()))
        return bool(wires[-1].status == pq.ConnStatus.OK)

    server.process.wait_until(connected)
    wire = wires[-1]
    try:
        ((place,),) = server.ask("SELECT pg_current_wal_lsn()")
        wire.send_query(f"START_REPLICATION PHYSICAL {place}".encode())
        server.process.wait_until(lambda: bool(server.ask("SELECT 1 FROM pg_stat_replication")))
        yield
    finally:
        wire.finish()
        server.process.wait_until(lambda: not server.ask("SELECT 1 FROM pg_stat_replication"))


@both_colours
def test_standbys(server: PostgresServer, database: Database, colour: str) -> None:
    with standby(server):
        finding = examine(database.url, colour)["postgresql-replicas"]
    assert finding.severity is WARN
    assert "1 standbys" in finding.found


@both_colours
@pytest.mark.slow
def test_a_standby_that_is_waited_for_in_vain(
    server: PostgresServer, database: Database, colour: str
) -> None:
    with locknut.connect(database.url) as locks:
        locks.ping(timeout=60)
    server.ask("ALTER SYSTEM SET synchronous_standby_names = 'follower'")
    server.ask("SELECT pg_reload_conf()")
    try:
        server.process.wait_until(
            lambda: server.ask("SHOW synchronous_standby_names") == [("follower",)]
        )
        found = examine(database.url, colour, timeout=20)
    finally:
        server.ask("ALTER SYSTEM RESET synchronous_standby_names")
        server.ask("SELECT pg_reload_conf()")
    assert found["postgresql-replicas"].severity is FAIL
    assert found["reachable"].severity is FAIL


@both_colours
def test_the_clock(database: Database, colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is set instead: the checkup asks this module for the time."""
    monkeypatch.setattr(checkup, "time", another_clock(-60))
    finding = examine(database.url, colour)["clock"]
    assert finding.severity is WARN
    assert "ahead of" in finding.found
