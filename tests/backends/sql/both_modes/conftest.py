"""What holds in lease mode and in session mode alike, on every database server, in both colours."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS, Colour
from locknut.urls import open_engine
from tests.backends.sql.session.conftest import DATABASES
from tests.servers.databases import Database

PATIENCE = 60.0
TABLE = "locknut_locks"
HELD = f"SELECT COUNT(*) FROM {TABLE} WHERE holders <> ''"


@pytest.fixture(params=list(COLOURS))
def paint(request: pytest.FixtureRequest) -> Colour:
    return COLOURS[request.param]()


@pytest.fixture(params=["lease", "session"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(f"{request.param}_database")
    return found


def connect(paint: Colour, url: str, **options: object) -> Any:
    """A Locks of this colour, all of whose calls are awaited."""
    said = "&".join(f"{name}={value}" for name, value in options.items())
    return paint.locks(open_engine(f"{url}?{said}")[0], Settings("t"))


def is_mysql(database: Database) -> bool:
    return database.server.scheme != "postgresql"


async def until(paint: Colour, check: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, what
        await paint.pause(0.02)
