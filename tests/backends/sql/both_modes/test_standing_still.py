"""The server stands still: callers return when their time is over, and closing does not wait."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

from locknut.errors import AcquireTimeout, BackendUnavailable
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.both_modes.conftest import HELD, PATIENCE, connect, until
from tests.servers.databases import Database

pytestmark = pytest.mark.faults
LATE = 3.0
"""How late a caller may be on a busy machine."""
CLOSED = 10.0
HOLDS = 20


def waits(locks: Any, mode: str) -> bool:
    """Whether a claim of this client waits at the server, or in the table."""
    backend = locks._client.backend
    if mode == "lease":
        return bool(backend._waiting.by_id)
    return any(each.wait for each in list(backend._claims._by_id.values()))


@pytest.mark.parametrize("waiting", [True, False])
def test_callers_keep_their_time_and_leave_nothing(
    database: Database, paint: Colour, mode: str, *, waiting: bool
) -> None:
    """Also one that was waiting when it began. What was asked for late is undone."""
    timeout = 2.0 if waiting else 0.5

    async def story() -> None:
        locks = connect(paint, database.url, mode=mode)
        others = connect(paint, database.url, mode=mode)
        async with others.lock("y", timeout=PATIENCE):
            pass
        lease = await locks.lock("x", ttl=120).acquire(timeout=PATIENCE)
        name = "x" if waiting else "y"
        if not waiting:
            database.server.stop()
        began = time.monotonic()
        asked = paint.spawn(lambda: others.lock(name).acquire(timeout=timeout))
        try:
            if waiting:
                await until(paint, lambda: waits(others, mode), "it does not wait")
                database.server.stop()
            with suppress(BackendUnavailable, AcquireTimeout):
                assert await asked.result(PATIENCE) is None
            assert time.monotonic() - began < timeout + LATE
        finally:
            database.server.cont()
        await lease.release()
        await until(paint, lambda: database.ask(HELD) == [(0,)], "something was left behind")
        async with others.lock(name, timeout=PATIENCE):
            pass
        await locks.close()
        await others.close()

    paint.run(story())


def test_closing_with_many_holds_is_short(database: Database, paint: Colour, mode: str) -> None:
    async def story() -> None:
        locks = connect(paint, database.url, mode=mode, connections=HOLDS)
        for number in range(HOLDS):
            assert await locks.lock(f"x{number}").acquire(timeout=PATIENCE)
        database.server.stop()
        try:
            began = time.monotonic()
            with suppress(BackendUnavailable):
                await locks.close()
            assert time.monotonic() - began < CLOSED
        finally:
            database.server.cont()

    paint.run(story())
