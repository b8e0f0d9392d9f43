"""A real table beside the reference (`TableStore`): the same moves on both must do the same.

A database's clock cannot be set. So the reference is given the time that the database's answer
tells, and what must have run out has a ttl of a microsecond, what must not has one of an hour.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from hypothesis import strategies as st

from locknut.backends.sql import hold_records
from locknut.backends.sql.hold_records import DETACHED, HoldRecord, number_of
from locknut.backends.sql.table_port import (
    LOCK,
    RAW_STEP,
    US,
    Extension,
    GiveBack,
    Row,
    Seen,
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
KINDS = (("e", ""), ("s", ""), ("p", ""), ("e", '"ann"'), ("e", '"bob \\"x"'), ("s", '"ann"'))
"""How a claim holds, and whose it is."""
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
    kind: int = 0


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
        kind=st.integers(0, len(KINDS) - 1) | st.just(1),
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
            seen = self._whole(wanted, run(self._table.take(wanted)))
            assert seen == self._store.take(wanted, seen.now), move

    def _whole(self, wanted: Take, seen: Seen) -> Seen:
        """A short statement answers by the number alone: the row says the rest."""
        if seen.now:
            return seen
        (row,), _ = run(self._table.read([wanted.key]))
        assert row is not None
        assert number_of(seen, wanted.claim_id) == row.fence
        return Seen(row, row.expires - wanted.ttl)

    def _do_take_all(self, move: Move) -> None:
        wanted = [self._wanted(move, key, queue=False) for key in self._chosen(move)]
        found = run(self._table.take_all(wanted))
        if found is None:
            assert self._store.take_all(wanted, self._now()) is None, move
        else:
            pairs = list(zip(found, wanted, strict=True))
            assert found == [self._store.take(each, seen.now) for seen, each in pairs], move
            numbers = [number_of(seen, each.claim_id) for seen, each in pairs]
            assert None not in numbers, move

    def _do_extend(self, move: Move) -> None:
        """Both claims of a key in one go: a statement may change a row only once."""
        ttl = self._ttl(move)
        holds = [
            Extension(key, claim, ttl, self._stamp())
            for key in self._chosen(move)
            for claim in self._two(move)
        ]
        extended = run(self._table.extend(holds))
        rows, now = run(self._table.read([hold.key for hold in holds]))
        for hold, row, done in zip(holds, rows, extended, strict=True):
            records = hold_records.read(row.holders if row is not None else "")
            ends = [each.expires for each in records if each.head == hold.claim_id]
            began = ends[0] - ttl if done else now
            assert self._store.extend([hold], began) == [done], move

    def _do_give_back(self, move: Move) -> None:
        if not move.queue:
            self._take_out(move, "give_back", self._two(move))
            return
        for key in self._chosen(move):  # by itself, as if nobody else held
            place = GiveBack(key, CLAIMS[move.claim], self._stamp(), alone=True)
            now = self._now()
            (found,) = run(self._table.give_back([place]))
            (known,) = self._store.give_back([place], now)
            assert (found.row and found.row.line) == (known.row and known.row.line), move

    def _do_sweep(self, move: Move) -> None:
        """What is detached is swept by another name."""
        one, other = self._two(move)
        self._take_out(move, "sweep", (one, other, f"{DETACHED}{one}"))

    def _do_leave(self, move: Move) -> None:
        self._take_out(move, "leave", self._two(move))

    def _take_out(self, move: Move, verb: str, heads: tuple[str, ...]) -> None:
        places = [
            GiveBack(key, head, self._stamp()) for key in self._chosen(move) for head in heads
        ]
        now = self._now()
        found = [seen.row for seen in run(getattr(self._table, verb)(places))]
        assert found == [seen.row for seen in getattr(self._store, verb)(places, now)], move

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
        assert run(self._table.living(clients, 2 * HOUR)) == living, move
        assert run(self._table.living(clients, HOUR // 2)) == set(), "by a clock that was set back"

    def _do_prune(self, move: Move) -> None:
        now = self._now()
        idle = {key for key, row in self._store.rows.items() if self._store._is_idle(row, now)}
        assert run(self._table.prune(100_000)) >= len(idle), move
        self._store.prune(100_000, now)
        self._do_living(move)

    def _client(self, move: Move) -> str:
        return f"{self._prefix!r} {CLIENTS[move.known % len(CLIENTS)]}"

    def _two(self, move: Move) -> tuple[str, str]:
        return CLAIMS[move.claim], CLAIMS[(move.claim + 1) % len(CLAIMS)]

    def _wanted(self, move: Move, key: bytes, *, queue: bool) -> Take:
        mode, owner = KINDS[move.kind]
        facts = json.dumps([mode, 1, None, TEXTS[move.text]], separators=(",", ":"))
        claim, ttl = CLAIMS[move.claim], self._ttl(move)
        return Take(key, claim, ttl, facts, queue, self._stamp(), mode, owner, 2)

    def _swap(self, move: Move, key: bytes) -> Swap:
        """What the recipe could write; `known` says whether it knows the row that is there."""
        there = self._store.rows.get(key)
        stamp = None if there is None or move.known == 3 else there.stamp
        if move.known == 0:
            stamp = 10**9  # nobody's
        now = self._now()
        moments = (now + HOUR, now - 2 * DAY, 0)
        when, fence = moments[move.age], moments[move.text % 3] // RAW_STEP
        mode, owner = KINDS[move.kind]
        another = CLAIMS[move.text % len(CLAIMS)]
        held = [CLAIMS[move.claim], DETACHED + another] if move.lasting else []
        facts = json.dumps([TEXTS[move.text]])
        holders = hold_records.written(HoldRecord(head, when, fence, facts) for head in held)
        until = moments[move.claim % 3]
        grave = json.dumps({"graves": {another: until}})
        others = f"{until:016} {grave}" if move.queue and move.known == 1 else ""
        line = there.line if there is not None and move.known == 2 else ""
        company = mode + owner if held else ""
        return Swap(key, stamp, Row(fence, self._stamp(), holders, company, when, line, others))

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
