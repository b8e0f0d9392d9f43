"""What `doctor` finds at a MySQL or MariaDB: each check beside a server that is set up just so."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest

import locknut
from locknut.backends.sql.mysql import checkup
from tests.checkups import FAIL, OK, UNKNOWN, WARN, another_clock, examine, user_without
from tests.servers.databases import Database
from tests.servers.mysql import MariaServer, MySqlServer
from tests.servers.rewriting import Rewriting

both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])
both_modes = pytest.mark.parametrize("mode", ["lease", "session"])
LOGGED = {"log-bin": "bin", "server-id": "1", "sync-binlog": "1"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(MariaServer, marks=pytest.mark.mariadb, id="mariadb"),
        pytest.param(MySqlServer, marks=[pytest.mark.mysql, pytest.mark.slow], id="mysql"),
    ],
)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Set as it should be; a test that sets it otherwise sets it back."""
    with request.param(connections=40) as running:
        running.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        yield running


@pytest.fixture
def database(server: Any) -> Iterator[Database]:
    with server.database() as made:
        yield made


@contextmanager
def set_to(server: Any, name: str, value: str) -> Iterator[None]:
    ((before,),) = server.ask(f"SELECT @@global.{name}")
    server.ask(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        server.ask(f"SET GLOBAL {name} = {before}")


@both_colours
@both_modes
def test_a_server_as_it_should_be(database: Database, colour: str, mode: str) -> None:
    found = examine(f"{database.url}?mode={mode}", colour)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 11


@both_colours
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("innodb_flush_log_at_trx_commit", "2", "mysql-durability"),
        ("wait_timeout", "30", "mysql-idle-timeout"),
        ("max_connections", "11", "mysql-connections"),
    ],
)
def test_a_setting_that_is_wrong(
    server: Any, database: Database, colour: str, name: str, value: str, code: str
) -> None:
    with set_to(server, name, value), ExitStack() as open_now:
        if name == "max_connections":
            for _ in range(8):
                open_now.enter_context(closing(server.connect()))
        found = examine(database.url, colour)
    assert found[code].severity is WARN
    assert examine(database.url, colour)[code].severity is OK


@pytest.mark.parametrize("told", ["5.7", "9.9"])
def test_the_version(server: Any, database: Database, told: str) -> None:
    ((version,),) = server.ask("SELECT @@version")
    old = str(version).encode()
    with Rewriting((server.host, server.port), old, told.encode() + old[3:]) as proxy:
        finding = examine(database.url_through(proxy.port))["mysql-version"]
    good = told == "9.9" and "MariaDB" not in str(version)  # whose 9.9 is older than 10.6
    assert finding.severity is (OK if good else FAIL)


@both_colours
@pytest.mark.parametrize(
    ("lacking", "severity"), [("DELETE", WARN), ("UPDATE", FAIL), ("SELECT", FAIL)]
)
def test_rights_on_the_table(database: Database, colour: str, lacking: str, severity: str) -> None:
    few = user_without(lacking, database, f"{database.name}.locknut_locks")
    finding = examine(few, colour)["mysql-table"]
    assert finding.severity == severity
    assert f"GRANT {lacking}" in finding.advice


@both_colours
def test_a_table_that_somebody_made_with_another_engine(database: Database, colour: str) -> None:
    texts = ", ".join(f"{name} TEXT NOT NULL" for name in ("holders", "company", "line", "others"))
    numbers = ", ".join(f"{name} BIGINT NOT NULL" for name in ("fence", "stamp", "expires"))
    columns = f"name VARBINARY(250) PRIMARY KEY, {numbers}, {texts}"
    database.ask(f"CREATE TABLE locknut_locks ({columns}) ENGINE = MyISAM")
    finding = examine(database.url, colour)["mysql-table"]
    assert finding.severity is FAIL
    assert "MyISAM" in finding.found


@both_colours
def test_a_server_that_refuses_to_write(server: Any, database: Database, colour: str) -> None:
    with locknut.connect(database.url) as locks:
        locks.ping(timeout=60)
    server.read_only(on=True)
    try:
        found = examine(database.url, colour)
    finally:
        server.read_only(on=False)
    assert found["usable"].severity is FAIL


@both_colours
def test_the_clock(database: Database, colour: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours is set instead: the checkup asks this module for the time."""
    monkeypatch.setattr(checkup, "time", another_clock(60))
    finding = examine(database.url, colour)["clock"]
    assert finding.severity is WARN
    assert "behind" in finding.found


@pytest.mark.mariadb
@pytest.mark.slow
def test_replicas_and_the_binary_log_of_mariadb() -> None:
    with MariaServer(more=LOGGED) as logged, logged.database() as database:
        logged.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
        assert examine(database.url)["mysql-replicas"].severity is OK
        with set_to(logged, "sync_binlog", "0"):
            assert examine(database.url)["mysql-durability"].severity is WARN
        with closing(logged.connect()) as replica:
            _follow(replica)
            logged.process.wait_until(lambda: _followers(logged) == "1")
            finding = examine(database.url)["mysql-replicas"]
            assert finding.severity is WARN
            assert "1 replicas" in finding.found
            with set_to(logged, "rpl_semi_sync_master_enabled", "1"):
                finding = examine(database.url)["mysql-replicas"]
            assert finding.severity is OK


@pytest.mark.mariadb
@pytest.mark.slow
def test_one_of_several_that_take_writes() -> None:
    galera = {"wsrep-on": "1", "wsrep-provider": "none", "binlog-format": "ROW"}
    with MariaServer(more=galera) as member, member.database() as database:
        finding = examine(database.url)["mysql-several-primaries"]
    assert finding.severity is WARN
    assert "Galera" in finding.found


@pytest.mark.mysql
@pytest.mark.slow
def test_one_of_a_group_that_takes_writes() -> None:
    group = {
        **LOGGED,
        "plugin-load-add": "group_replication.so",
        "group-replication-single-primary-mode": "OFF",
        "group-replication-enforce-update-everywhere-checks": "ON",
    }
    with MySqlServer(more=group) as member, member.database() as database:
        finding = examine(database.url)["mysql-several-primaries"]
    assert finding.severity is WARN
    assert "Group Replication" in finding.found


def _followers(server: Any) -> str:
    ((_, count),) = server.ask("SHOW GLOBAL STATUS LIKE 'Slaves_connected'")
    return str(count)


def _follow(connection: Any) -> None:
    """As a replica does: it registers, and asks for the binary log."""
    from pymysql.constants import COMMAND

    register = struct.pack("<I", 7) + b"\0\0\0" + struct.pack("<HII", 0, 0, 0)
    connection._execute_command(COMMAND.COM_REGISTER_SLAVE, register)
    connection._read_ok_packet()
    with connection.cursor() as cursor:
        cursor.execute("SET @master_binlog_checksum = 'NONE', @mariadb_slave_capability = 4")
        cursor.execute("SHOW MASTER STATUS")
        (file, *_) = cursor.fetchone()
    dump = struct.pack("<IHI", 4, 0, 7) + file.encode()
    connection._execute_command(COMMAND.COM_BINLOG_DUMP, dump)


@pytest.mark.mysql
@pytest.mark.slow
def test_mysql_does_not_tell_its_replicas() -> None:
    with MySqlServer(more=LOGGED) as logged, logged.database() as database:
        assert examine(database.url)["mysql-replicas"].severity is UNKNOWN
