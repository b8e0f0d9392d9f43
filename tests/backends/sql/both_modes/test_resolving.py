"""A name that is not found, or that nobody answers for, costs nobody more than its own time.

PyMySQL and libpq look a name up by themselves, for each connection and for as long as it takes: a
call with a timeout hung in the resolver, and so did the keeper.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from locknut.errors import AcquireTimeout, BackendUnavailable
from locknut.runtimes import host_names
from locknut.testing.conformance.colours import Colour
from locknut.urls import open_engine
from tests.backends.sql.both_modes.conftest import PATIENCE, connect
from tests.servers.databases import Database
from tests.servers.resolver import Resolver, in_its_place

pytestmark = pytest.mark.faults
NAME = "database.example"
LATE = 3.0
"""How late a caller may be on a busy machine; the resolver is silent for much longer."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    with in_its_place(monkeypatch, NAME) as resolver:
        resolver.answers.set()
        yield resolver


def by_name(database: Database) -> str:
    return database.url.replace(f"@{database.server.host}:", f"@{NAME}:")


def test_callers_keep_their_time_and_it_is_asked_once(
    database: Database, paint: Colour, names: Resolver
) -> None:
    async def story() -> None:
        locks = connect(paint, by_name(database), mode="lease")
        async with locks.lock("x"):
            assert names.asked > 0
        names.answers.clear()
        asked = names.asked
        database.server.end_sessions()
        for _ in range(3):
            began = time.monotonic()
            with suppress(BackendUnavailable, AcquireTimeout):
                assert await locks.lock("x").acquire(timeout=0.1) is None
            assert time.monotonic() - began < 0.1 + LATE
        assert names.asked <= asked + 2, "who comes later waits for the same look-up"
        names.answers.set()
        async with locks.lock("x", timeout=PATIENCE):
            pass
        await locks.close()

    paint.run(story())


def test_who_keeps_asking_for_a_name_that_nobody_knows_pays_once(
    database: Database, paint: Colour, names: Resolver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_names, "SHORTLY", 600.0)
    monkeypatch.setattr(host_names, "MOST", 600.0)
    names.found = None

    async def story() -> None:
        locks = connect(paint, by_name(database), mode="lease")
        for _ in range(4):
            with pytest.raises(BackendUnavailable):
                await locks.lock("x").acquire(blocking=False)
        assert names.asked == 1
        await locks.close()

    paint.run(story())


@pytest.mark.slow
def test_a_holder_is_told_in_time_that_its_hold_is_lost(
    database: Database, paint: Colour, names: Resolver, mode: str
) -> None:
    """The keeper cannot renew, and must not hang in the resolver: who waits for `lost` looks at the
    clock by itself, but callbacks are the keeper's.
    """

    async def story() -> None:
        locks, told = connect(paint, by_name(database), mode=mode, timeout=1), paint.gate()
        locks.on_event(lambda event: told.open() if event.kind == "lost" else None)
        lease = await locks.lock("x", ttl=2).acquire(timeout=PATIENCE)
        names.answers.clear()
        database.server.end_sessions()
        assert await told.passed(PATIENCE / 3)
        assert not lease.held
        names.answers.set()
        await locks.close()

    paint.run(story())


@pytest.mark.postgresql
def test_one_of_several_that_is_not_found_is_asked_for_once(
    postgresql_database: Database, paint: Colour, names: Resolver
) -> None:
    """Callers and keeper go to who took writes last: before, each session tried all in turn."""
    names.found = None
    server, there = postgresql_database.server, f"@{postgresql_database.server.host}:"
    url = postgresql_database.url.replace(there, f"@{NAME}:{server.port},{server.host}:")

    async def story() -> None:
        engine = open_engine(url)[0]
        for backend in (callers := paint.backend(engine), keeper := paint.backend(engine)):
            await backend.inspect("t:x")
        assert names.asked == 1
        for _ in range(3):
            server.end_sessions()
            await callers.inspect("t:x")
            await keeper.inspect("t:x")
        assert names.asked == 1
        await callers.close()
        await keeper.close()

    paint.run(story())
