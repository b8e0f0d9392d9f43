"""Answers that never come, and callers that leave: what was done is found again, or undone."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from locknut import aio
from locknut.testing import FaultProxy
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.both_modes.conftest import PATIENCE, TABLE, connect, until
from tests.servers.databases import Database

pytestmark = pytest.mark.faults
OTHERS_USE = 3
"""So often a name is taken first: from then on each pair is two short statements."""


def held(database: Database) -> bool:
    return database.ask(f"SELECT count(*) FROM {TABLE} WHERE holders <> ''") != [(0,)]


def waited_for(database: Database) -> bool:
    return database.ask(f"SELECT count(*) FROM {TABLE} WHERE line <> ''") != [(0,)]


@pytest.mark.parametrize("lost", ["acquire", "release"])
def test_it_is_asked_again(database: Database, paint: Colour, mode: str, lost: str) -> None:
    """The connection is in doubt, so it ends. An acquire finds its own hold, with the same number;
    a release that was done is done.
    """

    async def story() -> None:
        with FaultProxy((database.server.host, database.server.port)) as proxy:
            locks = connect(paint, database.url_through(proxy.port), mode=mode, timeout="1s")
            for _ in range(OTHERS_USE):
                async with locks.lock("x", timeout=PATIENCE):
                    pass
            if lost == "acquire":
                proxy.replies.swallow()
                asked = paint.spawn(lambda: locks.lock("x", ttl=60).acquire(timeout=PATIENCE))
                await until(paint, lambda: held(database), "it did not arrive")
                proxy.heal()
                proxy.cut()
                lease = await asked.result(PATIENCE)
                info = await locks.info("x")
                assert [each.fence for each in info.holders] == [lease.fence]
                await lease.release()
            else:
                lease = await locks.lock("x", ttl=60).acquire(timeout=PATIENCE)
                proxy.replies.swallow()
                released = paint.spawn(lease.release)
                await until(paint, lambda: not held(database), "it did not arrive")
                proxy.heal()
                proxy.cut()
                await released.result(PATIENCE)
            await locks.close()
        others = connect(paint, database.url, mode=mode)
        async with others.lock("x", timeout=PATIENCE):
            pass
        await others.close()
        assert not held(database)
        assert not waited_for(database)

    paint.run(story())


def test_a_cancelled_task_leaves_nothing(database: Database, mode: str) -> None:
    """Its command goes on to its end, and is undone: no hold, no place in line, no session that
    waits.
    """

    async def story() -> None:
        async with aio.connect(f"{database.url}?mode={mode}", namespace="t") as locks:
            async with locks.lock("x", timeout=PATIENCE):
                pass
            for pause in (0.0, 0.0005, 0.002, 0.005, 0.01) * 4:
                task = asyncio.create_task(locks.lock("x").acquire())
                await asyncio.sleep(pause)
                task.cancel()
                with suppress(asyncio.CancelledError):
                    lease = await task  # it was quicker
                    assert lease is not None
                    await lease.release()
            async with locks.lock("x", timeout=PATIENCE):
                pass
        assert not held(database)
        assert not waited_for(database)

    asyncio.run(story())
