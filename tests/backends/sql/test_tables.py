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

from locknut.backends.sql.hold_records import HoldRecord
from locknut.backends.sql.sqlite.file_table import FileTable
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


IDLE = Move("swap", lasting=False, queue=False, age=1, known=1)
NOTED = IDLE._replace(text=1, queue=True)
LINED_UP = (Move("take"), Move("take", claim=1), Move("give_back"))
READ_BEFORE = (Move("take", kind=1), Move("take", claim=1), Move("give_back"))
TWO_READ = (Move("take", kind=1), Move("take", claim=1, kind=1))
TWO_WAIT = (Move("take"), Move("take", claim=1), Move("take", claim=2))
RARE = (
    (IDLE, Move("prune")),
    (IDLE._replace(text=1, age=0, lasting=True), Move("prune")),
    (NOTED, Move("prune")),
    (NOTED._replace(claim=1), Move("prune")),
    (NOTED, Move("take", claim=1)),
    (NOTED, Move("take", claim=1, kind=3)),
    (*LINED_UP, Move("take", claim=2, queue=False)),
    (*LINED_UP, Move("take", claim=2, queue=False, kind=3)),
    (*READ_BEFORE, Move("take", claim=1)),
    (Move("take", kind=2), Move("take", claim=1), Move("take", claim=2, kind=2)),
    (*TWO_READ, Move("give_back", claim=1)),
    (*TWO_WAIT, Move("take", claim=2)),
    (*TWO_WAIT, Move("give_back"), Move("take", claim=1)),
)


def rare(test: Any) -> Any:
    """What chance alone would hardly come to."""
    for do in RARE:
        test = example(names=NAMES[:3], do=list(do))(test)
    return test


def _sqlite(
    path: Path, kind: type[FileTable] = FileTable, say: Statements | None = None
) -> FileTable:
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
@rare
@given(names=_names, do=moves())
def test_it_does_what_the_reference_does(
    database: str, request: pytest.FixtureRequest, names: tuple[str, ...], do: list[Move]
) -> None:
    table: Table = request.getfixturevalue(database)
    compare(table, lambda: next(_unused), names, do)


class CountBelieved(FileTable):
    """A row was changed, so the claim holds: the upsert's count says no more than that (S14)."""

    async def take(self, wanted: Take) -> Seen:
        before, _ = await self.read([wanted.key])
        seen = await super().take(wanted)
        if seen.row is None or [seen.row] == before:
            return seen
        record = HoldRecord(wanted.claim_id, seen.now + wanted.ttl, seen.row.fence, wanted.facts)
        return Seen(seen.row._replace(holders=str(record)), seen.now)


OWN = "instr(char(10) || holders, char(10) || :claim_id || ' ')"
ENDS = f"substr(holders, {OWN} + length(:claim_id) + 1, 16)"
PLACE = "instr(char(10) || line, char(10) || :claim_id || ' ')"
SEARCH = (Phase.explicit, Phase.generate)
"""Any failure will do: it need not be made short. What is rare has an example."""
MISTAKES = {
    "the end of the lock is not moved": ("WHEN held THEN max(expires, :now + :ttl)", ""),
    "expires assigned first": ("expires > :now AS held", "expires + :ttl > :now AS held"),
    "a renewal cuts the hold": (
        f"max({ENDS}, printf('%016d', :now + :ttl))",
        "printf('%016d', :now + :ttl)",
    ),
    "a renewal cuts the lock": ("expires = max(expires, :now + :ttl)", "expires = :now + :ttl"),
    "fence not raised": ("max(fence + 1, :now / 32)", "max(fence, :now / 32)"),
    "a fellow gets a new fence": ("held AND :mode = 'e' THEN CAST", "0 THEN CAST"),
    "own retry gets a new fence": ("THEN 'again'", "THEN 'enter'"),
    "joins twice": ("AND instr(char(10) || line, char(10) || :claim_id || ' ') = 0\n", "\n"),
    "overtakes the line": ("ELSE ahead = '' END", "ELSE 1 END"),
    "a reader overtakes writers": ("AND instr(ahead, ' [\"e\",') = 0", ""),
    "a permit overtakes the line": ("+ length(ahead) - length(replace(ahead, char(10), ''))", ""),
    "a tombstone is not obeyed": ("instr(others, :claim_id) = 0 AND NOT", "NOT"),
    "a tombstone joins": (":queue AND instr(others, :claim_id) = 0", ":queue"),
    "readers beside anybody": ("(NOT held OR substr(company, 1, 1) = 's')", "1"),
    "owners beside anybody": ("AND substr(company, 2) = :owner", ""),
    "a permit too many": ("< :permits", "<= :permits"),
    "company keeps its mode": ("CASE substr(company, 1, 1) WHEN :mode", "CASE :mode WHEN :mode"),
    "company keeps its owner": ("CASE substr(company, 2) WHEN :owner", "CASE :owner WHEN :owner"),
    "company is overrun": ("CASE WHEN held THEN holders ELSE '' END", "''"),
    "what is left of a lock stays": ("CASE WHEN held THEN holders ELSE '' END", "holders"),
    "a hold twice": ("AND NOT (held AND instr(holders, :claim_id) > 0)", ""),
    "a hold that ran out is extended": (
        f" AND {ENDS} > printf('%016d', :now) RETURNING",
        " RETURNING",
    ),
    "a hold that lasts is swept": (f"AND NOT ({OWN} > 0 AND {ENDS} > printf('%016d', :now))", ""),
    "what has run out is given back": (
        f"AND {OWN} > 0 AND {ENDS} > printf('%016d', :now)\nRETURNING",
        f"AND {OWN} > 0\nRETURNING",
    ),
    "alone in spite of a holder": ("(holders = '' OR expires <= :now) AND", "1 AND"),
    "alone, overtakes the line": (f"(line = '' OR {PLACE} = 1)", "1"),
    "alone, a tombstone is not obeyed": ("WHERE instr(others, :claim_id) = 0 AND", "WHERE 1 AND"),
    "alone, a tombstone joins": (
        "OR instr(others, :claim_id) = 0\n        AND :queue",
        "OR :queue",
    ),
    "alone, joins twice": (f":queue AND {PLACE} = 0 AND ({OWN}", f":queue AND ({OWN}"),
    "alone, the line is lost": ("CASE WHEN line = '' THEN '' ELSE", "CASE WHEN 1 THEN '' ELSE"),
    "alone, company stays": ("THEN 'e' ELSE company END", "THEN company ELSE company END"),
    "free, the line is passed over": ("AND line = '' AND others = ''", "AND others = ''"),
    "free, a tombstone is not obeyed": ("AND line = '' AND others = ''", "AND line = ''"),
    "a release takes all": ("CASE WHEN instr(holders, char(10)) = length(holders)", "CASE WHEN 1"),
    "a swap without looking": ("AND stamp = :known", "AND :known = :known"),
    "pruned while held": ("AND expires < :now - 86400000000", ""),
    "pruned with a number of today": ("AND fence * 32 < :now - 86400000000", ""),
    "pruned with a tombstone": ("AND others < printf('%016d', :now)", ""),
    "never pruned with an old tombstone": ("AND others < printf('%016d', :now)", "AND others = ''"),
}


def _finds(table: FileTable) -> None:
    @settings(thorough, max_examples=1000, derandomize=True, phases=SEARCH)
    @rare
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
@pytest.mark.slow
def test_a_mistake_in_the_statements_is_found(mistake: str, quick_path: Path) -> None:
    before, after = MISTAKES[mistake]
    right = Settings("").statements
    wrong = Statements(*(tuple(text.replace(before, after) for text in part) for part in right))
    assert wrong != right
    _finds(_sqlite(quick_path, say=wrong))


@pytest.mark.sqlite
def test_a_count_that_is_believed_is_found(quick_path: Path) -> None:
    _finds(_sqlite(quick_path, CountBelieved))
