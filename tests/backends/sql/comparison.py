"""A real table beside the reference (`TableStore`): the same moves on both must do the same.

A database's clock cannot be set. So the reference is given the time that the database's answer
tells, and what must have run out has a ttl of a microsecond, what must not has one of an hour.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from locknut.backends.sql.table_port import (
    LOCK,
    RAW_STEP,
    US,
    Extension,
    GiveBack,
    Row,
    Swap,
    Table,
    Take,
)
from locknut.runtimes.threads import run
from tests.simulation.sql.table_store import DAY, TableStore

HOUR = 3600 * US
CLAIMS = tuple(digit * 32 for digit in "abc1")
NAMES = ("a", "A", "a ", "a'b\"c\\", "ä\U0001f600", "%s :key ? {table} -- ;", "a\tb\nc")
"""Names that a database could take for one another, or for a part of a statement."""
TEXTS = ("", "'; --", 'a"b\\', "%s%%", ":now ?", "ä\U0001f600", "line\nend", " ".join(CLAIMS))
CLIENTS = ("first", "second", "x'y\"z")


class Move(NamedTuple):
    """One statement, by small numbers, so that a failure is short to read."""

    do: str
    keys: tuple[int, ...] = (0,)
    claim: int = 0
    lasting: bool = True
    queue: bool = True
    text: int = 0
    age: int = 0
    known: int = 0


def moves() -> st.SearchStrategy[list[Move]]:
    kinds = sorted(name.removeprefix("_do_") for name in vars(Comparison) if name[:4] == "_do_")
    takes = st.just("take")  # half of them: without grants nothing else has an effect
    move = st.builds(
        Move,
        do=takes | st.sampled_from(kinds),
        keys=st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True).map(tuple),
        claim=st.integers(0, len(CLAIMS) - 1),
        lasting=st.booleans(),
        queue=st.booleans(),
        text=st.integers(0, len(TEXTS) - 1),
        age=st.integers(0, 2),
        known=st.integers(0, 3),
    )
    return st.lists(move, min_size=1, max_size=25)


class Comparison:
    """Makes each move on both, and compares what came of it."""

    def __init__(self, table: Table, prefix: str, names: tuple[str, ...]):
        self._table = table
        self._store = TableStore()
        self._prefix = LOCK + prefix.encode()
        self._keys = [self._prefix + name.encode() for name in names]
        self._stamps = 0
        self._clients: dict[str, bool] = {}

    def make(self, move: Move) -> None:
        getattr(self, f"_do_{move.do}")(move)
        rows, _ = run(self._table.scan(self._prefix, b"", 100))
        expected, _ = self._store.scan(self._prefix, b"", 100, 0)
        assert rows == expected, move

    def _do_take(self, move: Move) -> None:
        for key in self._chosen(move):
            wanted = self._wanted(move, key, queue=move.queue)
            seen = run(self._table.take(wanted))
            assert seen == self._store.take(wanted, seen.now), move

    def _do_take_all(self, move: Move) -> None:
        wanted = [self._wanted(move, key, queue=False) for key in self._chosen(move)]
        found = run(self._table.take_all(wanted))
        if found is None:
            assert self._store.take_all(wanted, self._now()) is None, move
        else:
            pairs = zip(wanted, found, strict=True)
            assert found == [self._store.take(each, seen.now) for each, seen in pairs], move
            assert [seen.row and seen.row.holder for seen in found] == [
                each.claim_id for each in wanted
            ], move

    def _do_extend(self, move: Move) -> None:
        ttl, claim = self._ttl(move), CLAIMS[move.claim]
        holds = [Extension(key, claim, ttl, self._stamp()) for key in self._chosen(move)]
        extended = run(self._table.extend(holds))
        rows, now = run(self._table.read([hold.key for hold in holds]))
        for hold, row, done in zip(holds, rows, extended, strict=True):
            began = row.expires - ttl if row is not None and done else now
            assert self._store.extend([hold], began) == [done], move

    def _do_give_back(self, move: Move) -> None:
        claim = CLAIMS[move.claim]
        holds = [GiveBack(key, claim, self._stamp()) for key in self._chosen(move)]
        found = [seen.row for seen in run(self._table.give_back(holds))]
        assert found == [seen.row for seen in self._store.give_back(holds, 0)], move

    def _do_leave(self, move: Move) -> None:
        key, claim, stamp = self._keys[move.keys[0]], CLAIMS[move.claim], self._stamp()
        found = run(self._table.leave(key, claim, stamp)).row
        assert found == self._store.leave(key, claim, stamp, 0).row, move

    def _do_read(self, move: Move) -> None:
        before = self._now()
        rows, now = run(self._table.read(self._keys))
        assert rows == self._store.read(self._keys, now)[0], move
        assert before <= now <= self._now()

    def _do_swap(self, move: Move) -> None:
        swaps = [self._swap(move, key) for key in self._chosen(move)]
        assert run(self._table.swap(swaps)) == self._store.swap(swaps), move

    def _do_scan(self, move: Move) -> None:
        after = self._keys[move.keys[0]]
        rows, _ = run(self._table.scan(self._prefix, after, 2))
        assert rows == self._store.scan(self._prefix, after, 2, 0)[0], move

    def _do_beat(self, move: Move) -> None:
        client = self._client(move)
        run(self._table.beat(client, self._ttl(move)))
        self._clients[client] = move.lasting
        self._do_living(move)

    def _do_living(self, move: Move) -> None:
        clients = [self._client(move._replace(known=each)) for each in range(4)]
        living = {client for client, lasts in self._clients.items() if lasts}
        assert run(self._table.living(clients)) == living, move

    def _do_prune(self, move: Move) -> None:
        now = self._now()
        idle = {key for key, row in self._store.rows.items() if self._store._is_idle(row, now)}
        assert run(self._table.prune(100_000)) >= len(idle), move
        self._store.prune(100_000, now)
        self._do_living(move)

    def _client(self, move: Move) -> str:
        return f"{self._prefix!r} {CLIENTS[move.known % len(CLIENTS)]}"

    def _wanted(self, move: Move, key: bytes, *, queue: bool) -> Take:
        facts = json.dumps(["e", 1, None, TEXTS[move.text]], separators=(",", ":"))
        return Take(key, CLAIMS[move.claim], self._ttl(move), facts, queue, self._stamp())

    def _swap(self, move: Move, key: bytes) -> Swap:
        """What the recipe could write; `known` says whether it knows the row that is there."""
        there = self._store.rows.get(key)
        stamp = None if there is None or move.known == 3 else there.stamp
        if move.known == 0:
            stamp = 10**9  # nobody's
        now = self._now()
        moments = (now + HOUR, now - 2 * DAY, 0)
        when, fence = moments[move.age], moments[move.text % 3] // RAW_STEP
        held = CLAIMS[move.claim] if move.lasting else ""
        grave = json.dumps({"graves": {CLAIMS[move.text % len(CLAIMS)]: now + HOUR}})
        others = grave if move.queue and move.known == 1 else ""
        line = there.line if there is not None and move.known == 2 else ""
        facts = json.dumps([TEXTS[move.text]]) if held else ""
        row = Row(fence, self._stamp(), held, when, facts, line, others)
        return Swap(key, stamp, row)

    def _chosen(self, move: Move) -> list[bytes]:
        return sorted(self._keys[each] for each in move.keys)

    def _ttl(self, move: Move) -> int:
        return HOUR if move.lasting else 1

    def _stamp(self) -> int:
        self._stamps += 1
        return self._stamps

    def _now(self) -> int:
        return run(self._table.read([self._keys[0]]))[1]


def compare(
    table: Table, unused: Callable[[], str], names: tuple[str, ...], do: list[Move]
) -> None:
    """Make all moves, on locks that no earlier comparison has touched."""
    comparison = Comparison(table, f"{unused()}:", names)
    for move in do:
        comparison.make(move)
