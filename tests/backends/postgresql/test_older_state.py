"""A server that came back with an older state: a replica that lagged, or a backup."""

from __future__ import annotations

import pytest

from locknut.core.values import Busy, Granted, Renewal
from locknut.testing.conformance.colours import Colour
from tests.backends.postgresql.conftest import TABLE, backend, claim
from tests.servers.databases import Database

pytestmark = [pytest.mark.postgresql, pytest.mark.faults]


def test_fences_grow_though_the_rows_are_older(database: Database, paint: Colour) -> None:
    async def story() -> None:
        one = backend(paint, database.url)
        numbers = []
        for number in range(5):
            mine = claim()
            granted = await one.attempt(mine, 0.0)
            assert isinstance(granted, Granted)
            numbers.append(granted.raw)
            await one.release(mine)
            if number == 0:
                database.ask(f"CREATE TABLE kept AS SELECT * FROM {TABLE}")
            else:  # what was granted since is forgotten
                database.ask(f"DELETE FROM {TABLE}")
                database.ask(f"INSERT INTO {TABLE} SELECT * FROM kept")
        assert numbers == sorted(set(numbers))
        await one.close()

    paint.run(story())


def test_a_holder_that_was_forgotten_is_told_so(database: Database, paint: Colour) -> None:
    """The copy is from before the grant: the next one may have the lock, with a greater number, and
    the first learns it by its next renewal.
    """

    async def story() -> None:
        one, other = backend(paint, database.url), backend(paint, database.url)
        mine, yours = claim(), claim()
        await one.attempt(yours, 0.0)
        await one.release(yours)
        database.ask(f"CREATE TABLE kept AS SELECT * FROM {TABLE}")
        first = await one.attempt(mine, 0.0)
        database.ask(f"DELETE FROM {TABLE}")
        database.ask(f"INSERT INTO {TABLE} SELECT * FROM kept")
        second = await other.attempt(yours, 0.0)
        assert isinstance(first, Granted)
        assert isinstance(second, Granted)
        assert second.raw > first.raw
        assert list(await one.renew([mine])) == [Renewal.LOST]
        assert not await one.release(mine)
        assert list(await other.renew([yours])) == [Renewal.HELD]
        await one.close()
        await other.close()

    paint.run(story())


def test_an_older_hold_that_is_back_is_waited_for(database: Database, paint: Colour) -> None:
    """The copy has a hold in it that was released since: it ends by its ttl, and not before."""

    async def story() -> None:
        one = backend(paint, database.url)
        mine, yours = claim(ttl=2.0), claim()
        await one.attempt(mine, 0.0)
        database.ask(f"CREATE TABLE kept AS SELECT * FROM {TABLE}")
        await one.release(mine)
        database.ask(f"DELETE FROM {TABLE}")
        database.ask(f"INSERT INTO {TABLE} SELECT * FROM kept")
        assert isinstance(await one.attempt(yours, 0.0), Busy)
        await paint.pause(2.1)
        assert isinstance(await one.attempt(yours, 0.0), Granted)
        await one.close()

    paint.run(story())
