"""On a loop, who waits for a connection to hold its lock on keeps nobody from giving one back."""

from __future__ import annotations

import asyncio

from locknut.core.values import Granted
from locknut.testing.conformance.colours import COLOURS
from tests.backends.mysql.conftest import PATIENCE
from tests.backends.sql.session.conftest import backend, claim, granted, until
from tests.servers.databases import Database


def test_a_release_does_not_wait_behind_those_who_want_a_connection(database: Database) -> None:
    """Its own connection is what they wait for."""
    paint = COLOURS["asyncio"]()

    async def story() -> None:
        client = backend(paint, database, connections=1, timeout=2 * PATIENCE)
        await granted(paint, client, held := claim("x"))
        wanted = [claim(f"y{number}") for number in range(3)]
        tasks = [asyncio.ensure_future(client.attempt(each, 0.0)) for each in wanted]
        places = client._sessions.kept._places
        await until(paint, lambda: places._wanted, "nobody waits for a connection")
        assert await asyncio.wait_for(client.release(held), PATIENCE)
        for each, task in zip(wanted, tasks, strict=True):
            assert isinstance(await task, Granted)
            assert await client.release(each)
        await client.close()

    paint.run(story())
