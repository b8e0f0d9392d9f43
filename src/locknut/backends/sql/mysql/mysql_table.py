"""The table of locks on MySQL and MariaDB, which answer a write by a number instead of its row.

A statement passes the number of its grant, or what it did, to LAST_INSERT_ID(). It comes back with
the server's OK, and was computed by this very statement from the row that it wrote: it is no count
of rows, which an upsert cannot be believed (S14), and costs no second statement. Only who is
refused needs the row, and reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from locknut.backends.sql.hold_records import HoldRecord
from locknut.backends.sql.sql_table import Call, Connection, Rows, SqlTable
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.table_port import GiveBack, Row, Seen, Take

SCANNED: Final = 1000
"""Rows that are looked at when some are deleted."""


class MySqlTable(SqlTable):
    """Where only a number came back, `Seen` has the row as far as that tells, and counts from 0."""

    def __init__(self, connection: Connection, statements: Statements):
        super().__init__(connection, statements)
        self.confirm = statements.confirm[0]
        self._after = b""
        """Where pruning goes on."""

    async def take(self, wanted: Take) -> Seen:
        (rows,) = await self._connection.ask([self._take(wanted)])
        if rows:
            return granted(wanted, rows)
        (row,), now = await self.read([wanted.key])
        return Seen(row, now)

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        found: list[Seen] = []

        def all_taken(answers: list[Rows]) -> bool:
            taken = [
                granted(each, rows) for each, rows in zip(wanted, answers, strict=True) if rows
            ]
            found[:] = taken
            return len(taken) == len(wanted)

        taken = await self._connection.ask_all([self._take(each) for each in wanted], all_taken)
        return found if taken else None

    async def _each(self, say: tuple[str, ...], wanted: Sequence[GiveBack]) -> list[Seen]:
        answers = await self._connection.ask([Call(say, each._asdict()) for each in wanted])
        return [written(each, rows) for each, rows in zip(wanted, answers, strict=True)]

    async def prune(self, limit: int) -> int:
        look, *delete = self._say.prune
        bounds = {"after": self._after, "limit": SCANNED}
        (rows,) = await self._connection.ask([Call((look,), bounds)])
        self._after = rows[-1][0] if len(rows) == SCANNED else b""
        idle = [name for name, is_idle in rows if is_idle][:limit]
        if not idle:
            return 0
        (deleted,) = await self._connection.ask([Call(tuple(delete), {"keys": idle})])
        return int(deleted[0][0])


def granted(wanted: Take, rows: Rows) -> Seen:
    raw = rows[0][0]
    record = HoldRecord(wanted.claim_id, wanted.ttl, raw, wanted.facts)
    return Seen(Row(raw, wanted.stamp, str(record), expires=wanted.ttl), 0)


def written(wanted: GiveBack, rows: Rows) -> Seen:
    """What a write that answers by a number has left, if it was done."""
    return Seen(Row(stamp=wanted.stamp) if rows else None, 0)
