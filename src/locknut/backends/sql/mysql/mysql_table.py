"""The table of locks on MySQL and MariaDB, which answer a write by a number instead of its row.

A statement passes the number of its grant, or what it did, to LAST_INSERT_ID(). It comes back with
the server's OK, and was computed by this very statement from the row that it wrote: it is no count
of rows, which an upsert cannot be believed (S14), and costs no second statement. Only who is
refused needs the row, and reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

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
            return _granted(wanted, rows)
        (row,), now = await self.read([wanted.key])
        return Seen(row, now)

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        found: list[Seen] = []

        def all_taken(answers: list[Rows]) -> bool:
            taken = [
                _granted(each, rows) for each, rows in zip(wanted, answers, strict=True) if rows
            ]
            found[:] = taken
            return len(taken) == len(wanted)

        taken = await self._connection.ask_all([self._take(each) for each in wanted], all_taken)
        return found if taken else None

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        calls = [Call(self._say.give_back, hold._asdict()) for hold in holds]
        answers = await self._connection.ask(calls)
        return [
            Seen(Row(stamp=hold.stamp, expires=rows[0][0] - 1) if rows else None, 0)
            for hold, rows in zip(holds, answers, strict=True)
        ]

    async def leave(self, key: bytes, claim_id: str, stamp: int) -> Seen:
        arguments = {"key": key, "claim_id": claim_id, "stamp": stamp}
        (rows,) = await self._connection.ask([Call(self._say.leave, arguments)])
        return Seen(Row(stamp=stamp) if rows else None, 0)

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


def _granted(wanted: Take, rows: Rows) -> Seen:
    row = Row(rows[0][0], wanted.stamp, wanted.claim_id, wanted.ttl, wanted.facts)
    return Seen(row, 0)
