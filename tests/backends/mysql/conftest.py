"""A fresh database on each of the two servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pymysql
import pytest

import locknut
from locknut.backends.sql import waiting_claims
from locknut.backends.sql.mysql import bell_ringer, bell_sessions, packets
from locknut.backends.sql.mysql.engine import open_url
from locknut.backends.sql.mysql.mysql_table import MySqlTable
from locknut.urls import parse
from tests.servers.databases import Database
from tests.servers.mysql import MariaServer, MySqlServer

PATIENCE = 60.0
"""Seconds that a test waits for what has to come."""
BOTH = [
    pytest.param("mariadb", marks=pytest.mark.mariadb),
    pytest.param("mysql", marks=pytest.mark.mysql),
]


@pytest.fixture(params=BOTH)
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


@pytest.fixture
def url(database: Database) -> str:
    return database.url


@pytest.fixture
def timeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done because some time has passed. Who is not rung sleeps on, and a busy machine
    does not look more often.
    """
    for module, names in (
        (bell_sessions, ("SLICE",)),
        (bell_ringer, ("NET", "IDLE")),
        (waiting_claims, ("NEAR", "FAR", "BEAT")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 600)


def eventually(found: Callable[[], bool], otherwise: str) -> None:
    until = time.monotonic() + PATIENCE
    while not found():
        assert time.monotonic() < until, otherwise
        time.sleep(0.01)


def in_thread(work: Callable[[], object]) -> Callable[[], list[object]]:
    """Begin it; the answer waits for its end, and returns what it returned."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()

    def ended() -> list[object]:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "it hangs"
        return results

    return ended


def acquired(lock: Any, **options: Any) -> locknut.Lease:
    """It is there to be taken."""
    lease: locknut.Lease | None = lock.acquire(**{"timeout": PATIENCE, **options})
    assert lease is not None
    return lease


def table(database: Database, options: str = "") -> MySqlTable:
    """The statements alone, in the blocking colour."""
    engine = open_url(parse(database.url + options))
    return MySqlTable(packets.blocking(engine._pool()), engine._statements)


@contextmanager
def full(database: Database, ours: int = 0) -> Iterator[None]:
    """As long as the server has no connection left, for `ours` are open.

    What others have closed ends late, and then there is a place. So those are taken as well, until
    nobody else is connected; the administrator stays, or there would be one more.
    """
    taken: list[Any] = []

    def refused() -> bool:
        try:
            while True:
                taken.append(stranger_of(database, user=database.user, password=database.password))
        except pymysql.err.OperationalError as error:
            return bool(error.args[0] == 1040)

    with closing(stranger_of(database)) as admin, admin.cursor() as asking:

        def ask(sql: str) -> Any:
            asking.execute(sql)
            return asking.fetchall()

        others = (
            "SELECT COUNT(*) FROM information_schema.processlist "
            "WHERE id <> CONNECTION_ID() AND user NOT IN ('system user', 'event_scheduler')"
        )
        ((limit,),) = ask("SELECT @@GLOBAL.max_connections")
        ask("SET GLOBAL max_connections = 10")
        try:
            eventually(lambda: refused() and ask(others) == ((len(taken) + ours,),), "never full")
            yield
        finally:
            for each in taken:
                each.close()
            ask(f"SET GLOBAL max_connections = {limit}")


def stranger_of(database: Database, **settings: Any) -> Any:
    """A connection of somebody else's, by PyMySQL."""
    server = database.server
    assert isinstance(server, MariaServer | MySqlServer)
    return server.connect(database.name, **settings)
