"""Every statement goes by the primary key, and a write that raced is not mistaken for ours."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg
import pytest

from locknut.backends.sql.postgresql.advisory_locks import GATE, KNOWN
from locknut.backends.sql.statements import load
from locknut.core.values import Granted, Renewal
from locknut.drivers.postgresql import exchange, server_session
from locknut.testing.conformance.colours import Colour
from tests.backends.postgresql.conftest import (
    TABLE,
    backend,
    claim,
    connect,
    row_is_waited_for,
    until,
)
from tests.servers.databases import Database

pytestmark = pytest.mark.postgresql
TYPES = {
    **dict.fromkeys(("key", "name", "start", "end", "after"), ("bytea", "'\\x6c'")),
    **dict.fromkeys(("claim_id", "facts", "holders", "company", "line", "others"), ("text", "'x'")),
    **dict.fromkeys(("mode", "owner"), ("text", "'e'")),
    **dict.fromkeys(
        ("ttl", "stamp", "fence", "expires", "known", "limit", "longest", "permits", "gate"),
        ("bigint", "1"),
    ),
    **dict.fromkeys(("ttls", "stamps"), ("bigint[]", "'{1}'")),
    "keys": ("bytea[]", "'{\"\\\\x6c\"}'"),
    "claim_ids": ("text[]", "'{x}'"),
    "queue": ("bool", "true"),
}
STATEMENTS = {
    **{key: texts[0] for key, texts in load("postgresql", TABLE)._asdict().items() if texts},
    "take_at_gate": load("postgresql", TABLE, GATE).take[0],
    "enter_known": load("postgresql", TABLE, KNOWN).take_known[0],
}


@pytest.mark.parametrize("many", [1, 10, 20_000])
def test_every_statement_goes_by_the_primary_key(database: Database, many: int) -> None:
    database.ask(STATEMENTS["create"])
    database.ask(f"GRANT ALL ON {TABLE} TO {database.user}")
    database.ask(
        f"INSERT INTO {TABLE} SELECT int4send(i), 0, 0, '', '', 0, '', '' "
        f"FROM generate_series(1, {many}) AS i"
    )
    with closing(psycopg.connect(database.url, autocommit=True)) as session:
        session.execute(server_session._PLANS)
        session.execute("SET locknut.gate = 'true'")
        for name, text in STATEMENTS.items():
            if name not in {"create", "version"}:
                plan = explained(session, name, exchange.statement(text))
                assert "Seq Scan" not in plan, (name, plan)


def explained(session: Any, name: str, asked: exchange.Statement) -> str:
    types = ", ".join(TYPES[each][0] for each in asked.names)
    values = ", ".join(TYPES[each][1] for each in asked.names)
    session.execute(f"PREPARE {name} ({types}) AS {asked.text.decode()}")
    return "\n".join(line for (line,) in session.execute(f"EXPLAIN EXECUTE {name}({values})"))


def test_a_hold_that_ends_while_it_is_asked_for_again_is_not_believed(
    database: Database, paint: Colour
) -> None:
    """The statement begins while the claim holds, waits for the row, and finds it broken. The row
    as it was at the beginning still says that it holds (the naive statement is told so).
    """

    async def story() -> None:
        one, mine = backend(paint, f"{database.url}?timeout=20"), claim()
        assert isinstance(await one.attempt(mine, 0.0), Granted)
        with closing(psycopg.connect(database.url)) as stranger:
            stranger.execute(
                f"UPDATE {TABLE} SET holders = repeat('f', 32) || substr(holders, 33), stamp = 1"
            )
            asked = paint.spawn(lambda: one.attempt(mine._replace(waits=False), 0.0))
            await until(paint, lambda: row_is_waited_for(database))
            stranger.commit()
        assert not isinstance(await asked.result(60), Granted)
        await one.close()

    paint.run(story())


def test_two_that_make_the_row_at_once(database: Database, paint: Colour) -> None:
    """The second waits for the first one's insert, does not see it, and is refused all the same."""

    async def story() -> None:
        one, mine = backend(paint, f"{database.url}?timeout=20"), claim()
        await one.inspect("t:x")
        with closing(psycopg.connect(database.url)) as stranger:
            key = f"'\\x{b'lt:x'.hex()}'"
            stranger.execute(
                f"INSERT INTO {TABLE} VALUES ({key}, 1, 1, repeat('f', 32) || "
                """' 9000000000000000 0000000000000001 ["e",1,null,"","","","",1]' || chr(10), """
                "'e', 9000000000000000, '', '')"
            )
            asked = paint.spawn(lambda: one.attempt(mine._replace(waits=False), 0.0))
            await until(paint, lambda: row_is_waited_for(database))
            stranger.commit()
        assert not isinstance(await asked.result(60), Granted)
        await one.close()

    paint.run(story())


def test_idle_rows_are_pruned_and_others_are_not(database: Database, paint: Colour) -> None:
    async def story() -> None:
        locks = connect(paint, database.url)
        one: Any = backend(paint, database.url)
        lease = await locks.lock("held").acquire()
        async with locks.lock("idle"), locks.lock("locked"):
            pass
        day = 86_400_000_000
        database.ask(
            f"UPDATE {TABLE} SET fence = fence - {2 * day} / 32, expires = expires - {2 * day} "
            "WHERE holders = ''"
        )
        key = f"'\\x{b'lt:locked'.hex()}'"
        with closing(psycopg.connect(database.url)) as stranger:
            stranger.execute(f"SELECT FROM {TABLE} WHERE name = {key} FOR UPDATE")
            await one.tidy()
            stranger.rollback()
        left = {bytes(name) for (name,) in database.ask(f"SELECT name FROM {TABLE}")}  # type: ignore[call-overload]
        assert left == {b"lt:held", b"lt:locked"}
        await one.tidy()
        left = {bytes(name) for (name,) in database.ask(f"SELECT name FROM {TABLE}")}  # type: ignore[call-overload]
        assert left == {b"lt:held"}
        await lease.release()
        await one.close()
        await locks.close()

    paint.run(story())


@pytest.mark.parametrize(
    "name", ["a\0b", "\U0001f512", "'; DROP TABLE x; --", "%s $1 :key", "\\x00", "A", "a ", "ä"]
)
def test_hostile_names(database: Database, paint: Colour, name: str) -> None:
    async def story() -> None:
        locks = connect(paint, database.url)
        async with locks.lock(name), locks.lock("a"):
            assert {each.name for each in await locks.list()} == {name, "a"}
        await locks.close()

    paint.run(story())


def test_a_grant_waits_for_the_disk_though_the_user_does_not(
    database: Database, paint: Colour
) -> None:
    database.ask(f"ALTER DATABASE {database.name} SET synchronous_commit = off")

    async def story() -> None:
        one: Any = backend(paint, database.url)
        asked = exchange.Call(exchange.statement("SHOW synchronous_commit"), {})
        ((answer,),) = await one._questions.ask([asked])
        assert answer == ("on",)
        await one.close()

    paint.run(story())


def test_no_renewal_makes_a_hold_end_sooner(database: Database, paint: Colour) -> None:
    """Of two that waited for the row, the one that began first may come last."""
    ends = f"SELECT expires FROM {TABLE} WHERE holders <> ''"

    async def story() -> None:
        one, mine = backend(paint, database.url), claim(ttl=60.0)
        await one.attempt(mine, 0.0)
        before = database.ask(ends)
        assert list(await one.renew([mine._replace(ttl=1.0)])) == [Renewal.HELD]
        assert isinstance(await one.attempt(mine._replace(ttl=1.0), 0.0), Granted)
        assert database.ask(ends) == before
        await one.renew([mine])
        assert database.ask(ends) > before
        await one.close()

    paint.run(story())
