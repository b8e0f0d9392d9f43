"""The statements do on MariaDB and MySQL what the reference does in plain Python."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from locknut.backends.sql import hold_records
from locknut.backends.sql.demand import Demand
from locknut.backends.sql.hold_records import HoldRecord, number_of
from locknut.backends.sql.mysql.literals import bound, literal
from locknut.backends.sql.mysql.mysql_table import MySqlTable
from locknut.backends.sql.sql_table import Call
from locknut.backends.sql.table_port import US, Extension, GiveBack, Row, Seen, Swap, Take
from locknut.runtimes.threads import run
from tests.backends.mysql.conftest import stranger_of, table
from tests.servers.databases import Database
from tests.simulation.sql.table_store import TableStore

LONG = 10_000 * US
IDS = [f"{number:032x}" for number in range(1, 6)]
KEYS = [b"la", b"lA", b"la ", b"l\\", b"l'\xf0\x9f\x98\x80"]
KINDS = [("e", ""), ("e", ""), ("s", ""), ("s", ""), ("p", ""), ("e", '"ann"'), ("e", '"bob"')]
FACTS = '["e",1,null,"\\\\\'\\"\\u00e9"]'


def now() -> int:
    return time.time_ns() // 1000


def shown(row: Row | None, clock: int) -> Any:
    """Without times: those of the two differ by the way to the server."""
    if row is None:
        return None
    line = [text.split(" ", 2)[::2] for text in row.line.splitlines()]
    records = list(hold_records.read(row.holders))
    numbers = [each.raw for each in records]
    same = [numbers.index(each) for each in numbers]
    """Who has the same number: the numbers themselves are times."""
    holds = [(each.head, each.expires > clock, each.facts) for each in records]
    return row.stamp, holds, same, row.company, row.expires > clock, line, row.others


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
        verbs = ["take"] * 6 + ["extend", "give_back", "sweep", "leave", "swap", "all"]
        verb = self.chance.choice(verbs)
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
        mode, owner = self.chance.choice(KINDS)
        facts = FACTS.replace("e", mode, 1)
        wanted = Take(key, claim_id, ttl, facts, queue, next(self.stamps), mode, owner, 2)
        self.table._demand = self.chance.choice([Demand(), self.table._demand])
        if self.chance.random() < 0.5:  # of a client that has taken it before, and met nobody
            self.table._demand.taken(wanted._replace(claim_id=""))
        real, known = run(self.table.take(wanted)), self.store.take(wanted, now())
        if ttl == LONG:
            assert (number_of(real, claim_id) is None) == (number_of(known, claim_id) is None)
            if number_of(real, claim_id) is not None:
                (row,), clock = run(self.table.read([key]))
                assert number_of(real, claim_id) == number_of(Seen(row, clock), claim_id)

    def _extend(self, key: bytes, claim_id: str, ttl: int) -> None:
        holds = [Extension(key, claim_id, ttl, next(self.stamps))]
        assert run(self.table.extend(holds)) == self.store.extend(holds, now())

    def _give_back(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        self._take_out("give_back", key, claim_id)

    def _sweep(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        self._take_out("sweep", key, claim_id)

    def _leave(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        self._take_out("leave", key, claim_id)

    def _take_out(self, verb: str, key: bytes, claim_id: str) -> None:
        """One, or two at once, of one row."""
        alone = self.chance.random() < 0.5
        """One that is given back by itself goes by another statement."""
        ids = (claim_id,) if alone else (claim_id, IDS[0])
        places = [GiveBack(key, each, next(self.stamps), alone) for each in ids]
        real = run(getattr(self.table, verb)(places))
        known = getattr(self.store, verb)(places, now())
        assert [each.row is None for each in real] == [each.row is None for each in known]

    def _swap(self, key: bytes, claim_id: str, ttl: int) -> None:
        del ttl
        there = self.store.rows.get(key)
        known = None if there is None else there.stamp
        if self.chance.random() < 0.2:
            known = 999 if known is None else None
        grave = f'9999999999999999 {{"graves":{{"{claim_id}":9999999999999999}}}}'
        others = self.chance.choice(["", grave])
        fence = self.fences.get(key, 0)
        line = there.line if there else ""
        row = Row(fence + 1, next(self.stamps), "", "", 0, line, others)
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


class Noted:
    """What is said to the database, by the names of the statements."""

    def __init__(self, made: MySqlTable, monkeypatch: pytest.MonkeyPatch):
        self.said: list[str] = []
        names = {part: name for name, part in made._say._asdict().items()}
        ask = made._connection.ask

        def noting(calls: Sequence[Call]) -> Any:
            self.said += [names[call.statements] for call in calls]
            return ask(calls)

        monkeypatch.setattr(made._connection, "ask", noting)

    def of(self, work: Any) -> list[str]:
        self.said.clear()
        run(work)
        return self.said


def test_one_statement_takes_what_is_free_and_one_joins_where_many_want_it(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who meets a line for the first time says two; the naive one says two each time."""
    made = table(database)
    noted, stamps = Noted(made, monkeypatch), count(1)

    def take(claim_id: str) -> list[str]:
        return list(noted.of(made.take(Take(KEYS[0], claim_id, LONG, FACTS, True, next(stamps)))))

    def give_back(claim_id: str) -> None:
        run(made.give_back([GiveBack(KEYS[0], claim_id, next(stamps))]))

    one, two, three, four, _ = IDS
    assert take(one) == ["take_free"]
    assert take(two) == ["take_known", "take_alone"], "it joins the line"
    give_back(one)
    assert take(two) == ["take_alone"], "it was in line"
    assert take(three) == ["take_alone"], "the lock is in demand"
    give_back(two)
    assert take(three) == ["take_alone"]
    give_back(three)
    assert take(four) == ["take_alone"]
    give_back(four)
    assert take(one) == ["take_known"], "nobody had to wait any more"
    give_back(one)
    assert take(two) == ["take_known"]
    run(made.close())


def test_beats_are_kept_and_run_out(database: Database) -> None:
    made = table(database)
    run(made.beat("one", LONG))
    run(made.beat("two", 1))
    assert run(made.living(["one", "two", "three"], 2 * LONG)) == {"one"}
    run(made.beat("two", LONG))
    assert run(made.living(["one", "two", "three"], 2 * LONG)) == {"one", "two"}
    run(made.close())


def test_only_what_nobody_needs_is_pruned(database: Database) -> None:
    """A row whose number is above the clock stays: the next grant would get a smaller one (S11)."""
    made, old = table(database), now() - 2 * 86400 * US
    row, ever = Row(old // 32, 1, "", "", old), f"{now() + LONG} {{}}"
    hold = str(HoldRecord(IDS[0], old, old // 32, "[]"))
    kept = {
        b"lheld": row._replace(holders=hold, expires=now() + LONG),
        b"lwaited": row._replace(line=f"{IDS[0]} 1 []\n"),
        b"lnoted": row._replace(others=ever),
        b"lahead": row._replace(fence=(now() + LONG) // 32),
        b"lnew": row._replace(expires=now()),
    }
    gone = {
        b"lold": row,
        b"pold": row,
        b"lran-out": row._replace(holders=hold),
        b"lnoted-once": row._replace(others=f"{old} {{}}"),
    }
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
        assert run(made.swap([Swap(key, None, Row(old // 32, 1, "", "", old))]))
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
