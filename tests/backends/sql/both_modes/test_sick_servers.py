"""Two servers and one process: while one of them hangs, the holds on the other one are renewed.

A keeper that two Locks shared would be late: it hangs in a renewal for as long as a command may
take. So would one that the hanging caller keeps from its turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest

from locknut.errors import AcquireTimeout, BackendUnavailable
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.both_modes.conftest import PATIENCE, connect, until
from tests.backends.sql.session.conftest import DATABASES, SERVERS
from tests.servers.databases import Database
from tests.servers.sql import SqlServer

pytestmark = pytest.mark.faults
TTL = 4.0
LONG = 30
"""Seconds that a command at the sick one may take: as long its callers and its keeper hang."""


@pytest.fixture(scope="module", params=DATABASES)
def sick(request: pytest.FixtureRequest) -> Iterator[SqlServer]:
    """A second server of the same kind, which may be stopped."""
    with SERVERS[request.param](connections=40) as server:
        yield server


@pytest.fixture
def well(sick: SqlServer, request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(f"{sick.scheme}_database")
    return found


@pytest.mark.slow
def test_a_server_that_hangs_costs_no_hold_on_another(
    sick: SqlServer, well: Database, paint: Colour, mode: str
) -> None:
    async def story() -> None:
        ill = connect(paint, sick.database().url, mode=mode, timeout=LONG)
        fit = connect(paint, well.url, mode=mode)
        lost = await ill.lock("x", ttl=1).acquire(timeout=PATIENCE)
        kept = await fit.lock("x", ttl=TTL).acquire(timeout=PATIENCE)

        async def ask() -> None:
            with suppress(BackendUnavailable, AcquireTimeout):
                await ill.lock("y").acquire(timeout=LONG)

        sick.stop()
        try:
            hangs = paint.spawn(ask)
            assert await lost.lost.wait(PATIENCE), "the sick one cannot renew"
            before = kept._hold.valid_until
            await until(paint, lambda: kept._hold.valid_until > before, "it is not renewed")
            await fit.lock("y", timeout=PATIENCE).acquire()
            assert kept.held
        finally:
            sick.cont()
        await hangs.result(PATIENCE)
        await ill.close()
        await fit.close()

    paint.run(story())
