"""Session mode needs sessions of its own: a proxy that lends them is found out, and refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import locknut
from locknut.core.values import Granted
from locknut.drivers.postgresql.server_session import Session
from locknut.errors import ConfigurationError
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.postgresql.conftest import claim, eventually
from tests.servers.databases import Database
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgresql import PostgresServer

pytestmark = pytest.mark.postgresql


def test_a_proxy_that_lends_sessions_is_refused(pgbouncer: PgBouncer, database: Database) -> None:
    with (
        locknut.connect(f"{pgbouncer.url_of(database)}?mode=session") as locks,
        pytest.raises(ConfigurationError, match="lends them for a transaction"),
    ):
        locks.lock("x").acquire(timeout=5)


def test_one_that_is_named_is_refused_without_asking(database: Database) -> None:
    with pytest.raises(ConfigurationError, match="pool_mode=transaction"):
        locknut.connect(f"{database.url}?mode=session&pool_mode=transaction")


def test_a_session_that_becomes_another_one_is_noticed(database: Database) -> None:
    """As one does that is lent for each transaction, by a proxy that was not found out before."""
    engine = open_engine(f"{database.url}?mode=session&pool_mode=session")[0]
    client: Any = engine.blocking(ThreadRuntime())
    first, second = claim(), claim()
    run(client.attempt(first, 0.0))
    run(client.release(first))
    (idle,) = client._sessions._line.pool._idle
    idle.number += 1
    with pytest.raises(ConfigurationError, match="lends them for a transaction"):
        run(client.attempt(second, 0.0))
    run(client.close())


def test_a_proxy_that_keeps_sessions_will_do(
    postgresql_server: PostgresServer, database: Database
) -> None:
    with PgBouncer(postgresql_server, mode="session", size=20) as pool:
        url = f"{pool.url_of(database)}?mode=session&pool_mode=session"
        with locknut.connect(url) as locks, locknut.connect(url) as others:
            with locks.lock("x"):
                assert others.lock("x").acquire(timeout=1) is None
            with others.lock("x", timeout=10):
                pass


@pytest.mark.slow
def test_who_waits_writes_no_line_to_the_servers_log(own_server: PostgresServer) -> None:
    """A wait that ended every second would be an error every second there."""
    database = own_server.database()
    with (
        locknut.connect(f"{database.url}?mode=session") as locks,
        locknut.connect(f"{database.url}?mode=session") as others,
    ):
        with locks.lock("x"):
            before = (own_server.folder / "log").read_text().count("ERROR")
            assert others.lock("x").acquire(blocking=False) is None
            assert others.lock("x").acquire(timeout=3) is None
        assert (own_server.folder / "log").read_text().count("ERROR") - before <= 1


def test_one_exchange_to_acquire_and_one_to_release(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = open_engine(f"{database.url}?mode=session")[0].blocking(ThreadRuntime())
    first, second = claim(), claim()
    run(client.attempt(first, 0.0))
    run(client.release(first))
    exchanges: list[object] = []
    drive = Session.drive

    def count(session: Session, steps: Any, until: float) -> Any:
        exchanges.append(steps)
        return drive(session, steps, until)

    monkeypatch.setattr(Session, "drive", count)
    assert isinstance(run(client.attempt(second, 0.0)), Granted)
    assert len(exchanges) == 1
    assert run(client.release(second))
    assert len(exchanges) == 2
    run(client.close())


@pytest.mark.slow
def test_an_administrator_sees_holders_and_waiters(database: Database) -> None:
    asked = "SELECT granted FROM pg_locks WHERE locktype = 'advisory' ORDER BY granted"
    with (
        locknut.connect(f"{database.url}?mode=session") as locks,
        locknut.connect(f"{database.url}?mode=session") as others,
        locks.lock("x"),
    ):
        waiter = threading.Thread(target=lambda: others.lock("x").acquire(timeout=5))
        waiter.start()
        eventually(lambda: database.ask(asked) == [(False,), (True,)], "nobody waits")
        waiter.join()
