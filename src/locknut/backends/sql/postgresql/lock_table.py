"""The table of locks on PostgreSQL: each call is one statement, or several in one transaction.

What a statement did is read back from the row: a write leaves the stamp that it came with (S14).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

from locknut.backends.sql.demand import Demand
from locknut.backends.sql.hold_records import HoldRecord, number_of
from locknut.backends.sql.postgresql.table_questions import Questions
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.table_port import CLIENT, Extension, GiveBack, Row, Seen, Swap, Take
from locknut.drivers.postgresql import sqlstates
from locknut.drivers.postgresql.exchange import Call, Refused, statement
from locknut.drivers.postgresql.settings import NAME
from locknut.errors import BackendUnavailable

W = TypeVar("W", Extension, GiveBack)
TRIES: Final = 50
"""Each failure means that somebody else changed the row in the same millisecond."""
_CHECK: Final = """
SELECT 1 / (count(*) = :count)::int FROM unnest(:keys, :stamps) AS wanted (key, stamp)
JOIN {table} AS lock ON name = wanted.key AND lock.stamp = wanted.stamp
"""
"""Undoes the transaction, by an error, unless all rows have got the stamps that they should."""


class LockTable:
    """A `Table` in one colour."""

    def __init__(self, questions: Questions, statements: Statements, table: str):
        self._ask = questions.ask
        said = statements._asdict().items()
        self._say = {name: statement(texts[-1]) for name, texts in said if texts}
        self._check = statement(_CHECK.format(table=table))
        self._demand = Demand()
        self._pruned = b""
        """The key that was looked at last: the next prune goes on there."""
        self.inside = questions.inside
        self.close = questions.close
        self.forked = questions.forked
        self.dropped = questions.dropped

    async def take(self, wanted: Take) -> Seen:
        """By the short statement, if the row is there and nobody else is likely to want it."""
        if wanted.mode == "e" and not wanted.owner and self._demand.is_known(wanted.key):
            (rows,) = await self._ask([Call(self._say["take_known"], wanted._asdict())])
            if rows:
                return granted(wanted, rows)
        for _ in range(TRIES):
            (rows,) = await self._ask([self._take(wanted)])
            seen = seen_in(rows)
            if rows and not is_of_the_past(seen, wanted):
                self._demand.met(wanted, seen)
                return seen
        message = "the lock's row changed again and again while it was to be taken; try again"
        raise BackendUnavailable(message, backend=NAME)

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        stamps = [(each.key, each.stamp) for each in wanted]
        answers = await self._ask_together([self._take(each) for each in wanted], stamps)
        return None if answers is None else [seen_in(rows) for rows in answers]

    def _take(self, wanted: Take) -> Call:
        alone = wanted.mode == "e" and not wanted.owner
        return Call(self._say["take_alone" if alone else "take"], wanted._asdict())

    async def extend(self, holds: Sequence[Extension]) -> list[bool]:
        calls = [
            Call(
                self._say["extend"],
                {
                    "keys": [hold.key for hold in wave],
                    "claim_ids": [hold.claim_id for hold in wave],
                    "ttls": [hold.ttl for hold in wave],
                    "stamps": [hold.stamp for hold in wave],
                },
            )
            for wave in _waves(holds)
        ]
        answers = await self._ask(calls) if calls else []
        extended = {row for rows in answers for row in rows}
        return [(hold.key, hold.claim_id) in extended for hold in holds]

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        if len(holds) == 1 and holds[0].alone:
            (rows,) = await self._ask([Call(self._say["give_back_alone"], holds[0]._asdict())])
            if rows:
                return [given_back(holds[0], rows)]
        return await self._each("give_back", holds)

    async def sweep(self, holds: Sequence[GiveBack]) -> list[Seen]:
        return await self._each("sweep", holds)

    async def leave(self, places: Sequence[GiveBack]) -> list[Seen]:
        return await self._each("leave", places)

    async def _each(self, verb: str, wanted: Sequence[GiveBack]) -> list[Seen]:
        found: dict[tuple[object, object], Seen] = {}
        calls = [
            Call(
                self._say[verb],
                {
                    "keys": [each.key for each in wave],
                    "claim_ids": [each.claim_id for each in wave],
                    "stamps": [each.stamp for each in wave],
                },
            )
            for wave in _waves(wanted)
        ]
        for rows in await self._ask(calls) if calls else ():
            found.update({(key, claim_id): seen_in([rest]) for key, claim_id, *rest in rows})
        return [found.get((each.key, each.claim_id), Seen(None, 0)) for each in wanted]

    async def read(self, keys: Sequence[bytes]) -> tuple[list[Row | None], int]:
        if not keys:
            return [], 0
        (rows,) = await self._ask([Call(self._say["read"], {"keys": list(keys)})])
        return [seen_in([row]).row for row in rows], rows[0][-1]

    async def swap(self, swaps: Sequence[Swap]) -> bool:
        calls = [self._swap(each) for each in swaps]
        if len(calls) == 1:
            (rows,) = await self._ask(calls)
            return bool(rows)
        stamps = [(each.key, each.row.stamp) for each in swaps]
        return await self._ask_together(calls, stamps) is not None

    def _swap(self, swap: Swap) -> Call:
        arguments: dict[str, object] = {"key": swap.key, **swap.row._asdict()}
        if swap.stamp is None:
            return Call(self._say["add"], arguments)
        return Call(self._say["swap"], {**arguments, "known": swap.stamp})

    async def _ask_together(
        self, calls: Sequence[Call], stamps: Sequence[tuple[bytes, int]]
    ) -> list[list[tuple[object, ...]]] | None:
        """The answers; None, and nothing was done, unless every row has got its stamp."""
        arguments = {
            "count": len(stamps),
            "keys": [key for key, _ in stamps],
            "stamps": [stamp for _, stamp in stamps],
        }
        try:
            *answers, _ = await self._ask([*calls, Call(self._check, arguments)])
        except Refused as error:
            if error.code == sqlstates.CHECK_FAILED:
                return None
            raise
        return answers

    async def scan(
        self, prefix: bytes, after: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Row]], int]:
        bounds = {"start": prefix, "end": prefix + b"\xff", "after": after, "limit": limit}
        (rows,) = await self._ask([Call(self._say["scan"], bounds)])
        found = [(row[0], Row(*row[1:-1])) for row in rows]
        return found, rows[0][-1] if rows else 0

    async def beat(self, client: str, ttl: int) -> None:
        arguments = {"key": CLIENT + client.encode(), "ttl": ttl}
        await self._ask([Call(self._say["beat"], arguments)])

    async def living(self, clients: Sequence[str], longest: int) -> set[str]:
        if not clients:
            return set()
        arguments = {"keys": [CLIENT + each.encode() for each in clients], "longest": longest}
        (rows,) = await self._ask([Call(self._say["living"], arguments)])
        return {name[1:].decode() for (name,) in rows}

    async def prune(self, limit: int) -> int:
        arguments = {"after": self._pruned, "limit": limit}
        (rows,) = await self._ask([Call(self._say["prune"], arguments)])
        last, deleted, looked_at = rows[0] if rows else (b"", 0, 0)
        self._pruned = last if looked_at == limit else b""
        return int(deleted)

    async def version(self) -> str:
        (rows,) = await self._ask([Call(self._say["version"], {})])
        return str(rows[0][0])


def seen_in(rows: Sequence[Sequence[object]]) -> Seen:
    """A row and the clock; no rows at all: the statement changed nothing."""
    if not rows:
        return Seen(None, 0)
    *columns, now = rows[0]
    return Seen(None if columns[1] is None else Row(*columns), now)  # type: ignore[arg-type]


def granted(wanted: Take, rows: Sequence[Sequence[object]]) -> Seen:
    """The row after `take_known`: all but the number was known."""
    raw = int(str(rows[0][0]))
    record = HoldRecord(wanted.claim_id, wanted.ttl, raw, wanted.facts)
    return Seen(Row(raw, wanted.stamp, str(record), expires=wanted.ttl), 0)


def given_back(hold: GiveBack, rows: Sequence[Sequence[object]]) -> Seen:
    """The row after `give_back_alone`: nobody holds, and these wait."""
    return Seen(Row(stamp=hold.stamp, line=str(rows[0][0])), 0)


def is_of_the_past(seen: Seen, wanted: Take) -> bool:
    """Whether the row shows the claim's own hold, and nothing was written: the hold was taken away
    while the statement ran.
    """
    holds = number_of(seen, wanted.claim_id) is not None
    return holds and seen.row is not None and seen.row.stamp != wanted.stamp


def _waves(wanted: Sequence[W]) -> list[list[W]]:
    """An UPDATE changes each row once: what is to be done to one row twice goes into the next. The
    first wave has all the keys, in order, so that two batches cannot wait for each other.
    """
    waves: list[list[W]] = []
    met: Counter[bytes] = Counter()
    for each in sorted(wanted, key=lambda one: one.key):
        if met[each.key] == len(waves):
            waves.append([])
        waves[met[each.key]].append(each)
        met[each.key] += 1
    return waves
