"""The statements of the Firebird example do what the reference does."""

from __future__ import annotations

import time
from contextlib import closing
from importlib import import_module
from itertools import count
from typing import Any

import pytest
from hypothesis import given

from locknut.backends.sql.table_port import US, GiveBack, Table, Take
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine, parse
from tests.backends.sql.comparison import Move, compare, moves
from tests.backends.sql.test_tables import _names, rare, thorough

pytestmark = pytest.mark.firebird
TICK = 0.001
"""Seconds to a step of Firebird's clock."""
_unused = map(str, count())


class Ticking:
    """A table whose clock goes on between two statements."""

    def __init__(self, table: Table):
        self._table = table

    def __getattr__(self, verb: str) -> Any:
        time.sleep(TICK)
        return getattr(self._table, verb)


class Unordered(Ticking):
    """The same. Names that go on with a control character come in an order of their own."""

    async def scan(self, prefix: bytes, after: bytes, limit: int) -> Any:
        rows, now = await self._table.scan(prefix, after, limit)
        return sorted(rows), now


@pytest.fixture(scope="module")
def table(firebird_server: Any) -> Any:
    backend: Any = open_engine(firebird_server.new_url())[0].blocking(ThreadRuntime())
    yield Ticking(backend._table)
    run(backend.close())


@pytest.mark.slow
@thorough
@rare
@given(names=_names, do=moves())
def test_it_does_what_the_reference_does(
    table: Any, names: tuple[str, ...], do: list[Move]
) -> None:
    compare(table, lambda: next(_unused), names, do)


def test_names_are_told_apart_by_their_bytes(table: Any) -> None:
    names = ["a", "A", "a ", "a\0", "a\0\0", "ä", "a\u0308", "\U0001f600", "a\x01", "", "x" * 1100]
    compare(
        Unordered(table),
        lambda: "names ",
        tuple(names),
        [Move("take", keys=tuple(range(len(names))))],
    )


def test_what_was_done_is_not_done_again_when_the_next_was_undone(firebird_server: Any) -> None:
    """A second release would find nothing, and say that the hold was lost."""
    url = firebird_server.new_url()
    backend: Any = open_engine(url)[0].blocking(ThreadRuntime())
    takes = [Take(key, key.hex(), 3600 * US, "[]", False, 1) for key in (b"la", b"lb")]
    assert all(run(backend._table.take(each)).row for each in takes)
    with closing(firebird_server.connect(parse(url).path)) as stranger:
        stranger.cursor().execute("UPDATE \"locknut_locks\" SET stamp = 7 WHERE name = x'6C6201'")
        tries, pool = count(), backend._table._connection._asking._pool
        learn = pool._learn

        def learned(error: Exception, tries_left: int) -> None:
            learn(error, tries_left)
            if not next(tries):  # it was undone, and is tried again
                stranger.rollback()

        pool._learn = learned
        places = [GiveBack(each.key, each.claim_id, 2) for each in takes]
        given = run(backend._table.give_back(places))
    run(backend.close())
    assert next(tries) > 0
    assert [seen.row is not None for seen in given] == [True, True]


MEANWHILE = """
    IF (NOT EXISTS (SELECT 1 FROM {table} WHERE name = :k)) THEN
        IN AUTONOMOUS TRANSACTION DO
            INSERT INTO {table} (name, fence, stamp, holders, company, expires, line, others)
            VALUES (:k, 5, 5, 'other 9999999999999999 0000000000000005 []' || :nl, 'e',
                9999999999999999, '', '');
"""
"""Another client takes the lock after the row was looked for, and commits."""


def test_who_makes_the_row_meanwhile_is_not_written_over(
    firebird_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = firebird_server.new_url()
    open_engine(url)  # now the example is imported
    example = import_module("locknut_firebird")
    looked = "-- take\n{claim}"
    before, found, after = example.SAID.partition(looked)
    verdict = "    IF (mark IS NULL) THEN\n"
    assert verdict in after
    raced = before + found + after.replace(verdict, MEANWHILE + verdict, 1)
    monkeypatch.setattr(example, "SAID", raced)
    backend: Any = open_engine(url)[0].blocking(ThreadRuntime())
    seen = run(backend._table.take(Take(b"lx", "mine", 3600 * US, "[]", False, 1)))
    run(backend.close())
    assert seen.row.holders.startswith("other ")
    assert "mine" not in seen.row.holders
