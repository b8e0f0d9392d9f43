"""The statements do on MariaDB and MySQL what the reference does in plain Python."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from locknut.backends.sql.mysql.literals import bound, literal
from locknut.backends.sql.table_port import US, Extension, GiveBack, Row, Swap, Take
from locknut.runtimes.threads import run
from tests.backends.mysql.conftest import stranger_of, table
from tests.servers.databases import Database
from tests.simulation.sql.table_store import TableStore

LONG = 10_000 * US
IDS = [f"{number:032x}" for number in range(1, 6)]
KEYS = [b"la", b"lA", b"la ", b"l\\", b"l'\xf0\x9f\x98\x80"]
FACTS = '["e",1,null,"\\\\\'\\"\\u00e9"]'


def now() -> int:
    return time.time_ns() // 1000


def shown(row: Row | None, clock: int) -> Any:
    """Without times: those of the two differ by the way to the server."""
    if row is None:
        return None
    line = [text.split(" ", 2)[::2] for text in row.line.splitlines()]
    return row.stamp, row.holder, row.expires > clock, row.facts, line, row.others


class Both:
    """Does everything twice, and compares."""

    def __init__(self, database: Database, seed: int):
        self.table = table(database)
        self.store = TableStore()
        self.chance = random.Random(seed)
        self.stamps = iter(range(1, 1_000_000))
        self.fences: dict[bytes, int] = {}

    def step(self) -> None:
        key, claim_id = self.chance.choice(KEYS), self.chance.choice(IDS)
        verb = self.chance.choice(["take"] * 4 + ["extend", "give_back", "leave", "swap", "all"])
        ttl = self.chance.choice([LONG, LONG, 1])
        before = self.store.rows.get(key)
        getattr(self, f"_{verb}")(key, claim_id, ttl)
        (real,), clock = run(self.table.read([key]))
        known = self.store.rows.get(key)
        assert shown(real, clock) == shown(known, clock), (verb, key, claim_id)
        if known is not None and real is not None:
            grown = known.fence > (before.fence if before else 0)
            assert real.fence > 0
            assert grown == (real.fence != self.fences.get(key, 0)), "a number of its own"
            assert real.fence >= self.fences.get(key, 0)
            self.fences[key] = real.fence

    def _take(self, key: bytes, claim_id: str, ttl: int) -> None:
        queue = self.chance.random() < 0.7
        wanted = Take(key, claim_id, ttl, FACTS, queue, next(self.stamps))
        real, known = run(self.table.take(wanted)), self.store.take(wanted, now())
        holds = known.row is not None and known.row.holder == claim_id
        held = real.row is not None and real.row.holder == claim_id
        if ttl == LONG:
            assert held == holds

    def _extend(self, key: bytes, claim_id: str, ttl: int) -> None:
        holds = [Extension(key, claim_id, ttl, next(self.stamps))]
        assert run(self.table.extend(holds)) == self.store.extend(holds, now())

    def _give_back(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        holds = [GiveBack(key, claim_id, next(self.stamps))]
        (real,), clock = run(self.table.give_back(holds)), now()
        (known,) = self.store.give_back(holds, clock)
        assert (real.row is None) == (known.row is None)
        if real.row is not None and known.row is not None:
            assert (real.row.expires > real.now) == (known.row.expires > known.now)

    def _leave(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        stamp = next(self.stamps)
        real = run(self.table.leave(key, claim_id, stamp))
        assert (real.row is None) == (self.store.leave(key, claim_id, stamp, now()).row is None)

    def _swap(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        there = self.store.rows.get(key)
        known = None if there is None else there.stamp
        if self.chance.random() < 0.2:
            known = 999 if known is None else None
        others = self.chance.choice(["", f'{{"graves":{{"{claim_id}":9999999999999999}}}}'])
        fence = self.fences.get(key, 0)
        line = there.line if there else ""
        row = Row(fence + 1, next(self.stamps), "", 0, "", line, others)
        store_row = row._replace(fence=(there.fence if there else 0) + 1)
        real = run(self.table.swap([Swap(key, known, row)]))
        assert real == self.store.swap([Swap(key, known, store_row)])

    def _all(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        wanted = [
            Take(each, claim_id, LONG, FACTS, False, next(self.stamps))
            for each in sorted({key, KEYS[0]})
        ]
        real, known = run(self.table.take_all(wanted)), self.store.take_all(wanted, now())
        assert (real is None) == (known is None)
        for each in wanted:
            (row,), _ = run(self.table.read([each.key]))
            if row is not None and each.key != key:  # `step` looks at that one
                self.fences[each.key] = row.fence


@pytest.mark.parametrize("seed", range(5))
def test_the_same_as_the_reference(database: Database, seed: int) -> None:
    both = Both(database, seed)
    for _ in range(120):
        both.step()
    rows, _ = run(both.table.scan(b"l", b"", 100))
    assert [key for key, _ in rows] == sorted(both.store.rows)
    run(both.table.close())


def test_beats_are_kept_and_run_out(database: Database) -> None:
    made = table(database)
    run(made.beat("one", LONG))
    run(made.beat("two", 1))
    assert run(made.living(["one", "two", "three"])) == {"one"}
    run(made.beat("two", LONG))
    assert run(made.living(["one", "two", "three"])) == {"one", "two"}
    run(made.close())


def test_only_what_nobody_needs_is_pruned(database: Database) -> None:
    """A row whose number is above the clock stays: the next grant would get a smaller one (S11)."""
    made, old = table(database), now() - 2 * 86400 * US
    row = Row(old // 32, 1, "", old)
    kept = {
        b"lheld": row._replace(holder=IDS[0], expires=now() + LONG),
        b"lwaited": row._replace(line=f"{IDS[0]} 1 []\n"),
        b"lnoted": row._replace(others="{}"),
        b"lahead": row._replace(fence=(now() + LONG) // 32),
        b"lnew": row._replace(expires=now()),
    }
    gone = {b"lold": row, b"pold": row, b"lran-out": row._replace(holder=IDS[0])}
    for key, each in {**kept, **gone}.items():
        assert run(made.swap([Swap(key, None, each)]))
    run(made.beat("dead", 1))
    run(made.beat("alive", LONG))
    assert run(made.prune(100)) == len(gone) + 1
    rows, _ = run(made.scan(b"", b"", 100))
    assert [key for key, _ in rows] == sorted([b"calive", *kept])
    assert run(made.prune(100)) == 0
    run(made.close())


def test_pruning_passes_by_what_is_locked(database: Database) -> None:
    made, old = table(database), now() - 2 * 86400 * US
    for key in (b"lone", b"ltwo"):
        assert run(made.swap([Swap(key, None, Row(old // 32, 1, "", old))]))
    other = stranger_of(database)
    with other.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute("UPDATE locknut_locks SET stamp = 2 WHERE name = 'lone'")
        assert run(made.prune(100)) == 1
        cursor.execute("ROLLBACK")
    other.close()
    assert run(made.prune(100)) == 1
    run(made.close())


def test_nothing_is_ever_quoted() -> None:
    assert literal(b"'\\\"") == "x'275c22'"
    assert literal(True) == "1"
    assert literal([b"a", b"b"]) == "x'61', x'62'"
    assert bound("f(:a, :b, :a)", {"a": "x", "b": 2}) == "f(x'78', 2, x'78')"
    with pytest.raises(TypeError):
        literal(1.5)
