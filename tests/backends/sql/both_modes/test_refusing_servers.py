"""A table that is missing or somebody else's, and a server that only reads: said as what it is."""

from __future__ import annotations

import pytest

from locknut.errors import ConfigurationError
from locknut.testing.conformance.colours import Colour
from tests.backends.sql.both_modes.conftest import PATIENCE, TABLE, connect
from tests.servers.databases import Database


def test_a_table_that_was_dropped_is_made_again(
    database: Database, paint: Colour, mode: str
) -> None:
    async def story() -> None:
        locks = connect(paint, database.url, mode=mode)
        async with locks.lock("x", timeout=PATIENCE):
            pass
        database.ask(f"DROP TABLE {TABLE}")
        async with locks.lock("x", timeout=PATIENCE):
            pass
        await locks.close()

    paint.run(story())


def test_a_table_of_somebody_else_is_left_alone(
    database: Database, paint: Colour, mode: str
) -> None:
    database.ask(f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, title TEXT)")
    if database.server.scheme == "postgresql":
        database.ask(f"GRANT ALL ON {TABLE} TO {database.user}")

    async def story() -> None:
        locks = connect(paint, database.url, mode=mode)
        with pytest.raises(ConfigurationError, match=r"is not one of (ours|locks).*table="):
            await locks.lock("x").acquire(timeout=PATIENCE)
        await locks.close()

    paint.run(story())
    assert not database.ask(f"SELECT * FROM {TABLE}")


def test_a_server_that_only_reads_is_named_and_later_it_goes_on(
    database: Database, paint: Colour, mode: str
) -> None:
    async def story() -> None:
        locks = connect(paint, database.url, mode=mode)
        async with locks.lock("x", timeout=PATIENCE):
            pass
        database.server.read_only(True)
        try:
            with pytest.raises(ConfigurationError, match=r"read-only|takes no writes"):
                await locks.lock("x").acquire(timeout=PATIENCE)
        finally:
            database.server.read_only(False)
        async with locks.lock("x", timeout=PATIENCE):
            pass
        await locks.close()

    paint.run(story())
