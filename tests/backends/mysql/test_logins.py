"""Ways to the server: passwords, TLS, binary logs of statements, proxies that share connections."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import locknut
from locknut import aio
from locknut.errors import BackendUnavailable, LocknutError
from tests.backends.mysql.conftest import BOTH, PATIENCE, acquired, eventually, in_thread
from tests.backends.mysql.sharing_proxy import shared
from tests.servers.certificates import Certificates
from tests.servers.databases import PASSWORD, Database
from tests.servers.mysql import MariaServer, MySqlServer

KINDS = {"mariadb": MariaServer, "mysql": MySqlServer}


def test_where_a_password_comes_from(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bare = database.url.replace(f":{PASSWORD}@", "@")
    file = tmp_path / "my.cnf"
    file.write_text(f"[client]\npassword={PASSWORD}\n")
    with locknut.connect(f"{bare}?read_default_file={file}") as locks:
        acquired(locks.lock("x"), timeout=20).release()
    monkeypatch.setenv("MYSQL_PWD", PASSWORD)
    other = {"mysql": "mariadb", "mariadb": "mysql"}[bare.partition(":")[0]]
    for url in (bare, f"{other}:{bare.partition(':')[2]}"):
        with locknut.connect(url) as locks:
            acquired(locks.lock("x"), timeout=20).release()


@pytest.fixture(params=BOTH)
def secure(request: pytest.FixtureRequest, certificates: Certificates) -> Iterator[Database]:
    with KINDS[request.param](certificates=certificates) as server, server.database() as made:
        yield made


@pytest.mark.slow
def test_tls_in_both_colours(secure: Database) -> None:
    """The server refuses whoever speaks without it."""
    with locknut.connect(secure.url.partition("?")[0]) as locks, pytest.raises(LocknutError):
        locks.lock("x").acquire(timeout=20)
    with locknut.connect(secure.url) as locks:
        lease = acquired(locks.lock("x"))

        async def story() -> None:
            async with aio.connect(secure.url) as others:
                assert (await others.info("x")).locked
                async with others.lock("y", timeout=20):
                    pass

        asyncio.run(story())
        waiting = in_thread(lambda: _take(secure.url))
        eventually(lambda: len(locks.info("x").waiters) == 1, "it does not wait")
        lease.release()
        assert waiting() == [True]


def _take(url: str) -> bool:
    with locknut.connect(url) as locks, locks.lock("x", timeout=PATIENCE):
        return True


def test_tls_checks_the_name_unless_told_otherwise(secure: Database) -> None:
    """127.1 is the same address, but the certificate does not say so."""
    other = secure.url.replace("127.0.0.1", "127.1")
    with locknut.connect(other) as locks, pytest.raises(BackendUnavailable, match="certificate"):
        locks.lock("x").acquire(blocking=False)
    with locknut.connect(f"{other}&ssl_verify_identity=no") as locks:
        acquired(locks.lock("x"), timeout=20).release()


@pytest.mark.parametrize("kind", [BOTH[0]])
def test_a_binary_log_of_statements(kind: str) -> None:
    """READ COMMITTED cannot write there: the server says so, and we use another isolation."""
    more = {"log-bin": "log", "binlog-format": "STATEMENT", "server-id": "1"}
    with (
        KINDS[kind](more=more) as server,
        server.database() as database,
        locknut.connect(database.url) as locks,
    ):
        assert server.ask("SELECT @@log_bin, @@binlog_format") == [(1, "STATEMENT")]
        acquired(locks.lock("x"), timeout=20).release()
        acquired(locks.all("x", "y"), timeout=20).release()


def test_where_packets_are_shared_out_waiters_look_by_themselves(database: Database) -> None:
    with shared(database) as port:
        url = f"{database.url_through(port)}?timeout=20s"
        with locknut.connect(url) as one, locknut.connect(url) as two:
            lease = acquired(one.lock("x"))
            waiting = in_thread(lambda: two.lock("x").acquire(timeout=PATIENCE))
            eventually(lambda: len(one.info("x").waiters) == 1, "it does not wait")
            eventually(lambda: "wake_up" not in two.capabilities, "nobody noticed the proxy")
            lease.release()
            (got,) = waiting()
            assert got is not None
            got.release()  # type: ignore[attr-defined]
            acquired(one.all("a", "b")).release()
            assert database.ask("SELECT COUNT(*) FROM locknut_locks WHERE holders <> ''") == [(0,)]
