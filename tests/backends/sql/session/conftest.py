"""What the tests of session mode share: they are the same on every database that has it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from locknut.core.values import Claim, Granted
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.servers.databases import Database
from tests.servers.mysql import MariaServer, MySqlServer
from tests.servers.postgresql import PostgresServer
from tests.servers.sql import SqlServer

PATIENCE = 60.0
TABLE = "locknut_locks"
SERVERS: dict[str, Callable[..., SqlServer]] = {
    "postgresql": PostgresServer,
    "mariadb": MariaServer,
    "mysql": MySqlServer,
}
DATABASES = [pytest.param(each, marks=getattr(pytest.mark, each)) for each in SERVERS]


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


@pytest.fixture(params=DATABASES)
def own_server(request: pytest.FixtureRequest) -> Iterator[SqlServer]:
    """One that a test may kill and fill."""
    with SERVERS[request.param](connections=20) as server:
        yield server


def by_session(database: Database, **options: object) -> str:
    """The URL of session mode there."""
    more = "".join(f"&{name}={value}" for name, value in options.items())
    return f"{database.url}?mode=session{more}"


def connect(paint: Colour, database: Database, **options: object) -> Any:
    """A Locks of this colour, all of whose calls are awaited."""
    return paint.locks(open_engine(by_session(database, **options))[0], Settings("t"))


def backend(paint: Colour, database: Database, **options: object) -> Any:
    """A client without a keeper: nobody renews, and nobody notices."""
    return paint.backend(open_engine(by_session(database, **options))[0])


def claim(name: str = "x", **facts: object) -> Claim:
    return Claim(f"t:{name}", secrets.token_hex(16), **{"ttl": 30.0, **facts})  # type: ignore[arg-type]


def session_of(client: Any, of: Claim) -> int:
    """The number of the session that this client's claim has."""
    found = client._claims.get(of.id)
    assert found is not None
    return int(found.session.number)


async def granted(paint: Colour, client: Any, wanted: Claim) -> Granted:
    """Ask until it is granted."""
    give_up = time.monotonic() + PATIENCE
    while True:
        answer = await client.attempt(wanted, 0.0)
        if isinstance(answer, Granted):
            return answer
        assert time.monotonic() < give_up, "it was never granted"
        await paint.pause(min(0.02, answer.retry_in))


async def until(paint: Colour, check: Callable[[], object], what: str = "") -> None:
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, what
        await paint.pause(0.02)
