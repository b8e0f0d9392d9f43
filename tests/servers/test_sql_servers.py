"""Every private SQL server serves, keeps its data, can be disturbed, and goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from tests.servers.certificates import Certificates, make_certificates
from tests.servers.databases import Database
from tests.servers.mysql import MariaServer, MySqlServer
from tests.servers.postgresql import PostgresServer
from tests.servers.processes import ROOT, exists, until
from tests.servers.serving import start_together
from tests.servers.sql import SqlServer

pytestmark = pytest.mark.timeout(400)  # thousands of files of data, on a machine that is busy

KINDS = [
    pytest.param(kind, marks=getattr(pytest.mark, kind.scheme), id=kind.scheme)
    for kind in (PostgresServer, MariaServer, MySqlServer)
]
Kind = Callable[..., SqlServer]
Refusal = (psycopg.Error, pymysql.err.MySQLError)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def server(kind: type[SqlServer], request: pytest.FixtureRequest) -> SqlServer:
    """The one of this session: a test leaves it running."""
    return request.getfixturevalue(f"{kind.scheme}_server")  # type: ignore[no-any-return]


@pytest.fixture
def database(server: SqlServer) -> Iterator[Database]:
    with server.database() as made:
        yield made


def connect(database: Database, **settings: Any) -> Any:
    """As a user has it: by the port, with a password, and without every right."""
    server = database.server
    login = {"user": database.user, "password": database.password}
    by_port: dict[str, Any] = {"host": server.host, "port": server.port}
    if isinstance(server, MariaServer | MySqlServer):
        by_port["unix_socket"] = None
    assert isinstance(server, PostgresServer | MariaServer | MySqlServer)
    return server.connect(database.name, **login, **by_port, **settings)


def ask(connected: Any, sql: str) -> list[tuple[object, ...]]:
    with connected.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall()) if cursor.description else []


def test_it_serves_by_port_and_by_socket(database: Database) -> None:
    server = database.server
    assert database.url == (
        f"{server.scheme}://tester:s3cret@127.0.0.1:{server.port}/{database.name}"
    )
    assert str(server.sockets) in database.unix_url
    with closing(connect(database)) as connected:
        ask(connected, "CREATE TABLE t (a INT)")
        ask(connected, "INSERT INTO t VALUES (1)")
    assert database.ask("SELECT a FROM t") == [(1,)]


def test_nothing_is_left_behind(kind: Kind) -> None:
    with kind() as server:
        pids = _family(server.pid)
        long_ago = server.folder
    assert not any(map(exists, pids))
    assert not long_ago.exists()


def test_one_that_stands_still_can_be_ended(kind: Kind) -> None:
    with kind() as server:
        pids = _family(server.pid)
        server.stop()
    assert not any(map(exists, pids))


def test_what_was_committed_survives_a_kill(database: Database) -> None:
    """Also in the moment after: no server of the tests leaves a commit for later."""
    server, port = database.server, database.server.port
    for number in range(3):
        with closing(connect(database)) as connected:
            ask(connected, "CREATE TABLE IF NOT EXISTS t (a INT PRIMARY KEY)")
            ask(connected, f"INSERT INTO t VALUES ({number})")
            server.kill()
        assert not server.running
        server.start()
        assert server.port == port
        assert database.ask("SELECT COUNT(*) FROM t") == [(number + 1,)]


def test_a_restart_without_data_knows_nothing(kind: Kind) -> None:
    with kind() as server:
        before = server.database()
        server.restart(keep_data=False)
        with pytest.raises(Refusal):
            before.ask("SELECT 1")
        with server.database() as after, closing(connect(after)) as connected:
            assert ask(connected, "SELECT 1") == [(1,)]


def test_one_that_stands_still_answers_later(database: Database) -> None:
    """Also to a session that there was before: it may be served by a process of its own."""
    answers: list[object] = []
    with closing(connect(database)) as connected:
        database.server.stop()
        try:
            asking = threading.Thread(target=lambda: answers.extend(ask(connected, "SELECT 1")))
            asking.start()
            asking.join(0.3)
            assert not answers
        finally:
            database.server.cont()
        asking.join(60)
    assert answers == [(1,)]


def test_an_orderly_end_and_a_new_start(database: Database) -> None:
    with closing(connect(database)) as connected:
        database.server.shut_down()
        with pytest.raises(Refusal):
            ask(connected, "SELECT 1")
    database.server.start()
    with closing(connect(database)) as connected:
        assert ask(connected, "SELECT 1") == [(1,)]


def test_sessions_are_counted_and_cut(database: Database) -> None:
    server = database.server
    until(lambda: not server.sessions(), "nobody is connected")
    with closing(connect(database)) as one, closing(connect(database)) as another:
        assert len(server.sessions()) == 2
        assert server.end_sessions() == 2
        for cut in (one, another):
            with pytest.raises(Refusal):
                ask(cut, "SELECT 1")


def test_a_database_goes_with_whoever_is_connected(server: SqlServer) -> None:
    with server.database() as first, server.database() as second:
        assert first.name != second.name
        connected = connect(first)
        ask(connected, "CREATE TABLE t (a INT)")
        ask(connected, "BEGIN")
        ask(connected, "INSERT INTO t VALUES (1)")
    with pytest.raises(Refusal):
        ask(connected, "SELECT 1")
    connected.close()
    with pytest.raises(Refusal):
        first.ask("SELECT 1")


def test_a_user_may_do_what_was_granted_and_no_more(database: Database) -> None:
    database.ask("CREATE TABLE t (a INT)")
    reader = database.login("reader", "SELECT ON t", password="p@ss/w:rd")
    assert reader.user.startswith("reader_")
    assert f"//{reader.user}:p%40ss%2Fw%3Ard@" in reader.url
    with closing(connect(reader)) as connected:
        assert ask(connected, "SELECT a FROM t") == []
        with pytest.raises(Refusal, match="denied"):
            ask(connected, "INSERT INTO t VALUES (1)")
    with pytest.raises(Refusal, match="reader"):
        connect(replace(reader, password="another"))


def test_a_server_that_may_only_be_read(database: Database) -> None:
    database.ask("CREATE TABLE t (a INT)")
    if database.server.scheme == "postgresql":
        database.ask("GRANT ALL ON t TO tester")
    with closing(connect(database)) as connected:
        ask(connected, "INSERT INTO t VALUES (1)")
        database.server.read_only(True)
        try:
            with pytest.raises(Refusal, match="read-only"):
                ask(connected, "INSERT INTO t VALUES (2)")
            database.ask("INSERT INTO t VALUES (3)")  # the administrator may
        finally:
            database.server.read_only(False)
        ask(connected, "INSERT INTO t VALUES (4)")
    assert len(database.ask("SELECT a FROM t")) == 3


def _sessions(server: SqlServer) -> int | None:
    with suppress(*Refusal):
        return len(server.sessions())
    return None


def test_few_connections(kind: Kind) -> None:
    few = 10  # MariaDB wants no fewer
    with kind(connections=few) as server, server.database() as database:
        with ExitStack() as everybody:
            for _ in range(few):
                everybody.enter_context(closing(connect(database)))
            with pytest.raises(Refusal, match=r"(?i)too many|reserved"):
                connect(database)
            # MySQL has one place for the administrator; who is refused is in it for a moment.
            until(lambda: _sessions(server) == few, "the administrator comes in")
        until(lambda: not server.sessions(), "they have gone")
        connect(database).close()


def test_tls(
    kind: type[SqlServer], certificates: Certificates, tmp_path: Path, request: Any
) -> None:
    server = request.getfixturevalue(f"{kind.scheme}_tls_server")
    stranger = make_certificates(tmp_path)
    with server.database() as database:
        assert str(certificates.authority) in database.url
        with closing(connect(database, **_trusting(kind, certificates))) as connected:
            assert ask(connected, "SELECT 1") == [(1,)]
        with pytest.raises(Refusal, match=r"(?i)certificate"):
            connect(database, **_trusting(kind, stranger))
        plain = {"sslmode": "disable"} if kind is PostgresServer else {"ssl_disabled": True}
        with pytest.raises(Refusal):
            connect(database, **plain)


def test_a_long_path_is_no_trouble_for_sockets(
    kind: Kind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("long" * 20)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with kind() as server:
        sockets = server.sockets
        assert server.folder.is_relative_to(deep)
        assert server.ask("SELECT 1") == [(1,)]
    assert not sockets.exists()


@pytest.mark.postgresql
@pytest.mark.mariadb
def test_several_start_together() -> None:
    with PostgresServer() as one, MariaServer() as another:
        for server in (one, another):
            server.kill()
        start_together(one, another)
        assert one.ask("SELECT 1") == another.ask("SELECT 1") == [(1,)]


def test_none_is_left_when_the_tests_are_killed(kind: type[SqlServer], tmp_path: Path) -> None:
    """SIGKILL of the whole test run, from which nobody can clean up."""
    code = (
        f"from {kind.__module__} import {kind.__name__}\n"
        f"print({kind.__name__}().start().pid, flush=True)\n"
        "input()\n"
    )
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        text=True,
    ) as run:
        assert run.stdout is not None
        server = int(run.stdout.readline())
        pids = _family(server)
        run.send_signal(signal.SIGKILL)
    until(lambda: not any(map(exists, pids)), "the server died with the run")


def _family(pid: int) -> list[int]:
    """The server and whoever it started."""
    assert exists(pid)
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [pid, *map(int, told.split())]


def _trusting(kind: type[SqlServer], certificates: Certificates) -> dict[str, Any]:
    if kind is PostgresServer:
        return {"sslmode": "verify-full", "sslrootcert": str(certificates.authority)}
    return {"ssl_ca": str(certificates.authority), "ssl_verify_identity": True}
