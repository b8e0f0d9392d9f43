"""What the tests of the PostgreSQL engine share."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from locknut.core.ports import Backend
from locknut.core.values import Claim
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.servers.databases import Database
from tests.servers.postgresql import PostgresServer

PATIENCE = 60.0
BUSY = 1.5
"""Seconds: a busy machine's share."""
TABLE = "locknut_locks"


def eventually(check: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + patience
    while not check():
        assert time.monotonic() < give_up, what
        time.sleep(0.01)


async def until(paint: Colour, check: Callable[[], object]) -> None:
    """The same, in a test of either colour."""
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up
        await paint.pause(0.02)


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


def connect(paint: Colour, url: str) -> Any:
    """A Locks of this colour, all of whose calls are awaited."""
    return paint.locks(open_engine(url)[0], Settings("t"))


def backend(paint: Colour, url: str) -> Backend:
    return paint.backend(open_engine(url)[0])


def claim(name: str = "x", **facts: object) -> Claim:
    return Claim(f"t:{name}", secrets.token_hex(16), **{"ttl": 30.0, **facts})  # type: ignore[arg-type]


@pytest.fixture
def database(postgresql_database: Database) -> Database:
    return postgresql_database


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that a test may kill, stop and fill."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def own_database(own_server: PostgresServer) -> Database:
    return own_server.database()


def listens(database: Database) -> list[int]:
    """The sessions that listen, by their process numbers."""
    asked = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND datname = '{}'"
    return [int(str(pid)) for (pid,) in database.ask(asked.format(database.name))]


def rows(database: Database) -> list[tuple[object, ...]]:
    return database.ask(
        f"SELECT holders, line, others FROM {TABLE} WHERE name < 'm' AND name >= 'l'"
    )


def somebody_waits(database: Database) -> bool:
    return bool(database.ask(f"SELECT 1 FROM {TABLE} WHERE line <> ''"))


def row_is_waited_for(database: Database) -> bool:
    """Whether some session of this database waits for a lock that another one has."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = '{}'"
    return bool(database.ask(asked.format(database.name)))
