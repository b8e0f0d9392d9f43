"""Several servers in a URL: the one that takes writes is used, by callers and keeper alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

import locknut
from locknut.core.values import Granted
from locknut.drivers.postgresql.primary import Primary
from locknut.errors import BackendUnavailable
from locknut.testing.conformance.colours import Colour
from locknut.urls import open_engine
from tests.backends.postgresql.conftest import TABLE, claim, row_is_waited_for, until
from tests.servers.databases import Database
from tests.servers.postgresql import PostgresServer
from tests.servers.serving import start_together

pytestmark = [pytest.mark.postgresql, pytest.mark.faults]


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Database, Database]]:
    """Two servers that know nothing of each other: both take writes, as after a split."""
    one, other = PostgresServer(), PostgresServer()
    start_together(one, other)
    with one, other:
        yield one.database(), other.database()


def url_of(first: Database, second: Database, options: str = "") -> str:
    hosts = ",".join(f"{each.server.host}:{each.server.port}" for each in (first, second))
    login = f"{first.user}:{first.password}"
    return f"postgresql://{login}@{hosts}/{first.name}?timeout=10{options}"


def ours(database: Database) -> int:
    """How many sessions of Locknut are at this server."""
    asked = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'locknut'"
    return len(database.ask(asked))


def test_the_first_that_takes_writes_is_used(pair: tuple[Database, Database]) -> None:
    first, second = pair
    first.server.read_only(True)
    try:
        with locknut.connect(url_of(first, second)) as locks, locks.lock("x"):
            assert not ours(first)
            assert ours(second)
    finally:
        first.server.read_only(False)
    with locknut.connect(url_of(first, second)) as locks, locks.lock("x"):
        assert ours(first)


def test_all_backends_of_an_engine_are_at_one_server(
    pair: tuple[Database, Database], paint: Colour
) -> None:
    first, second = pair

    async def story() -> None:
        engine = open_engine(url_of(first, second))[0]
        callers, keepers = paint.backend(engine), paint.backend(engine)
        for each in (callers, keepers):
            await each.inspect("t:x")
        assert ours(first) == 2
        first.server.kill()
        try:
            await callers.inspect("t:x")
            await keepers.inspect("t:x")
            assert ours(second) == 2
        finally:
            first.server.start()
        second.server.end_sessions()
        await callers.inspect("t:x")
        assert not ours(first), "who took writes last is asked first"
        second.server.read_only(True)
        try:
            second.server.end_sessions()
            await callers.inspect("t:x")  # reaches the first again
            await keepers.inspect("t:x")
            await until(paint, lambda: not ours(second))
            assert ours(first) == 2
        finally:
            second.server.read_only(False)
        await callers.close()
        await keepers.close()

    paint.run(story())


def test_an_answer_of_a_server_that_was_left_does_not_count(
    pair: tuple[Database, Database], paint: Colour
) -> None:
    first, second = pair

    async def story() -> None:
        engine = open_engine(url_of(first, second))[0]
        one, other = paint.backend(engine), paint.backend(engine)
        mine = claim(f"left by {paint.name}")
        first.server.read_only(True)
        try:
            assert isinstance(await one.attempt(mine, 0.0), Granted)
            with closing(psycopg.connect(second.url)) as stranger:
                stranger.execute(f"SELECT FROM {TABLE} FOR UPDATE")
                asked = paint.spawn(lambda: one.renew([mine]))
                await until(paint, lambda: row_is_waited_for(second))
                first.server.read_only(False)
                second.server.read_only(True)  # for those who come from now on
                await other.inspect("t:x")
                assert ours(first)
                stranger.rollback()
            with pytest.raises(BackendUnavailable, match="another server"):
                await asked.result(60)
        finally:
            first.server.read_only(False)
            second.server.read_only(False)
        await one.close()
        await other.close()

    paint.run(story())


def test_a_server_on_an_older_timeline_is_refused() -> None:
    primary = Primary()
    assert primary.reached(b"a", "00000001")
    assert primary.reached(b"b", "00000002"), "b was promoted"
    assert not primary.reached(b"a", "00000001"), "a does not know"
    assert primary.epoch == 1
    assert primary.reached(b"a", "00000003")
    assert primary.epoch == 2
