"""A server that comes back without its data, or with those of earlier."""

from __future__ import annotations

import pytest

from locknut.core.values import Renewal
from locknut.errors import LeaseLost
from locknut.opening import Settings
from locknut.testing.conformance.colours import Colour
from locknut.urls import open_engine
from tests.backends.sql.session.conftest import TABLE, backend, by_session, claim, granted
from tests.servers.databases import Database

pytestmark = pytest.mark.faults


def test_a_table_that_comes_back_empty_is_a_loss(database: Database, paint: Colour) -> None:
    """A restored backup: who held has lost, and numbers go on growing."""

    async def story() -> None:
        client, first, second = backend(paint, database), claim(), claim()
        raw = (await granted(paint, client, first)).raw
        database.ask(f"DELETE FROM {TABLE}")
        assert await client.renew([first]) == [Renewal.LOST]
        assert not await client.release(first)
        assert (await granted(paint, client, second)).raw > raw
        await client.release(second)
        await client.close()

    paint.run(story())


def test_a_release_after_that_says_so(database: Database, paint: Colour) -> None:
    async def story() -> None:
        locks = paint.locks(open_engine(by_session(database))[0], Settings("t"))
        lease = await locks.lock("x", ttl=60).acquire()
        database.ask(f"DELETE FROM {TABLE}")
        with pytest.raises(LeaseLost):
            await lease.release()
        await locks.close()

    paint.run(story())


def test_numbers_grow_over_an_older_row(database: Database, paint: Colour) -> None:
    """It is free, as its client expects, and its number is one that was given since."""

    async def story() -> None:
        client, numbers = backend(paint, database), []
        for turn in range(4):
            numbers.append((await granted(paint, client, mine := claim())).raw)
            await client.release(mine)
            if turn == 0:
                database.ask(f"CREATE TABLE kept AS SELECT * FROM {TABLE}")
            else:
                database.ask(f"DELETE FROM {TABLE}")
                database.ask(f"INSERT INTO {TABLE} SELECT * FROM kept")
        assert numbers == sorted(set(numbers))
        await client.close()

    paint.run(story())
