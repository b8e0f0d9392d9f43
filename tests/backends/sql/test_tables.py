"""Every database does what the reference of its statements does, whatever comes in whatever order.

A further database needs a fixture beside `sqlite_table`, and its name in `TABLES`. MySQL and kin
answer by a number in place of the row: `tests/backends/mysql/test_statements.py` compares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from locknut.backends.sql.sql_table import SqlTable
from locknut.backends.sql.sqlite.settings import Settings
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.backends.sql.sqlite.sync import BlockingConnection
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.table_port import Seen, Table, Take
from locknut.runtimes.clock import now
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import open_engine
from tests.backends.sql.comparison import NAMES, Move, compare, moves
from tests.servers.databases import Database

TABLES = [
    pytest.param("sqlite_table", marks=pytest.mark.sqlite),
    pytest.param("postgresql_table", marks=pytest.mark.postgresql),
]
_unused = map(str, count())
_names = st.lists(st.sampled_from(NAMES), min_size=3, max_size=3, unique=True).map(tuple)
thorough = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _sqlite(path: Path, kind: type[SqlTable] = SqlTable, say: Statements | None = None) -> SqlTable:
    chosen = Settings(str(path / "locks.db"), limit=30.0)
    connection = BlockingConnection(SqliteFile(chosen, now), 30.0)
    return kind(connection, say or chosen.statements)


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """Where a durable commit costs nothing: there are thousands of them."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as made:
        yield Path(made)


@pytest.fixture
def sqlite_table(quick_path: Path) -> Iterator[Table]:
    table = _sqlite(quick_path)
    yield table
    run(table.close())


@pytest.fixture
def postgresql_table(postgresql_database: Database) -> Iterator[Table]:
    backend: Any = open_engine(postgresql_database.url)[0].blocking(ThreadRuntime())
    yield backend._table
    run(backend.close())


@pytest.mark.parametrize("database", TABLES)
@thorough
@given(names=_names, do=moves())
def test_it_does_what_the_reference_does(
    database: str, request: pytest.FixtureRequest, names: tuple[str, ...], do: list[Move]
) -> None:
    table: Table = request.getfixturevalue(database)
    compare(table, lambda: next(_unused), names, do)


class CountBelieved(SqlTable):
    """A row was changed, so the claim holds: the upsert's count says no more than that (S14)."""

    async def take(self, wanted: Take) -> Seen:
        before, _ = await self.read([wanted.key])
        seen = await super().take(wanted)
        if seen.row is None or [seen.row] == before:
            return seen
        return Seen(
            seen.row._replace(holder=wanted.claim_id, expires=seen.now + wanted.ttl), seen.now
        )


SEARCH = (Phase.explicit, Phase.generate)
"""Any failure will do: it need not be made short. What is rare has an example."""
MISTAKES = {
    "expires assigned first": (
        "max(expires, :now + :ttl) ELSE expires END",
        ":now + :ttl ELSE :now + :ttl END",
    ),
    "a renewal cuts the hold": ("max(expires, :now + :ttl)", ":now + :ttl"),
    "fence not raised": ("max(fence + 1, :now / 32)", "max(fence, :now / 32)"),
    "own retry gets a new fence": ("THEN 'again'", "THEN 'enter'"),
    "joins twice": ("AND instr(char(10) || line, char(10) || :claim_id || ' ') = 0 THEN", "THEN"),
    "overtakes the line": ("AND (line = '' OR substr(line, 1, 33) = :claim_id || ' ')", ""),
    "a tombstone is not obeyed": ("AND instr(others, :claim_id) = 0", ""),
    "others are overrun": ("AND others = ''\n", "\n"),
    "a hold that ran out is extended": (
        "AND holder = :claim_id AND expires > :now RETURNING",
        "AND holder = :claim_id RETURNING",
    ),
    "a swap without looking": ("AND stamp = :known", "AND :known = :known"),
    "pruned while held": ("AND expires < :now - 86400000000", ""),
    "pruned with a number of today": ("AND fence * 32 < :now - 86400000000", ""),
}


def _finds(table: SqlTable) -> None:
    @settings(thorough, max_examples=1000, derandomize=True, phases=SEARCH)
    @example(NAMES[:3], [Move("swap", lasting=False, queue=False, age=1, known=1), Move("prune")])
    @example(NAMES[:3], [Move("swap", lasting=False, text=1, known=1), Move("take", claim=1)])
    @given(names=_names, do=moves())
    def search(names: tuple[str, ...], do: list[Move]) -> None:
        compare(table, lambda: next(_unused), names, do)

    try:
        with pytest.raises(AssertionError):
            search()
    finally:
        run(table.close())


@pytest.mark.sqlite
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_statements_is_found(mistake: str, quick_path: Path) -> None:
    before, after = MISTAKES[mistake]
    right = Settings("").statements
    wrong = Statements(*(tuple(text.replace(before, after) for text in part) for part in right))
    assert wrong != right
    _finds(_sqlite(quick_path, say=wrong))


@pytest.mark.sqlite
def test_a_count_that_is_believed_is_found(quick_path: Path) -> None:
    _finds(_sqlite(quick_path, CountBelieved))
