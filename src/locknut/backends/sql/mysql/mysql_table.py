"""The table of locks on MySQL and MariaDB, which answer a write by a number instead of its row.

A statement passes the number of its grant, or what it did, to LAST_INSERT_ID(). It comes back with
the server's OK, and was computed by this very statement from the row that it wrote: it is no count
of rows, which an upsert cannot be believed (S14), and costs no second statement. Only who is
refused needs the row, and reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from locknut.backends.sql.demand import Demand
from locknut.backends.sql.hold_records import HoldRecord
from locknut.backends.sql.mysql.bell_sessions import bell
from locknut.backends.sql.mysql.literals import bound
from locknut.backends.sql.sql_table import Call, Connection, Rows, SqlTable
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.table_port import GiveBack, Joined, Row, Seen, Take
from locknut.drivers.mysql.sessions import UNTOLD
from locknut.errors import ConfigurationError

T = TypeVar("T")
SCANNED: Final = 1000
"""Rows that are looked at when some are deleted."""
_FLAG: Final = 1 << 62
"""A number from here on is neither a grant's nor a stamp: it tells of a claim in line, by the first
12 digits of its id."""


class BellConnections(Protocol):
    """Where bells hang on connections that can say a statement."""

    def lends(self, claim_id: str) -> bool:
        """Whether the claim's bell hangs on a connection that has nothing else to do."""

    def give_back(self, claim_id: str, statement: str) -> Rows | None:
        """Say this there, which frees the bell. None: it could not be said, and nothing was done.
        Blocks the calling thread.
        """


class NoBells:
    """Of a table by itself."""

    def lends(self, claim_id: str) -> bool:  # noqa: ARG002
        return False

    def give_back(self, claim_id: str, statement: str) -> Rows | None:  # noqa: ARG002
        return None


class WorkingConnection(Connection, Protocol):
    """One that also does other work that blocks, in its colour."""

    async def do(self, work: Callable[[], T]) -> T: ...


class MySqlTable(SqlTable):
    """Where only a number came back, `Seen` has the row as far as that tells, and counts from 0."""

    def __init__(
        self,
        connection: WorkingConnection,
        statements: Statements,
        bells: BellConnections = NoBells(),  # noqa: B008 -- it has no state
    ):
        super().__init__(connection, statements)
        self._connection: WorkingConnection = connection
        self._bells = bells
        self.confirm = statements.confirm[0]
        self._after = b""
        """Where pruning goes on."""
        self._demand = Demand()

    async def take(self, wanted: Take) -> Seen:
        """By a short statement, unless the key was in demand: then by the whole one at once."""
        demand = self._demand
        if wanted.mode == "e" and not wanted.owner and not demand.is_wanted(wanted.key):
            known = demand.is_known(wanted.key)
            said = self._say.take_known if known else self._say.take_free
            (rows,) = await self._connection.ask([Call(said, wanted._asdict())])
            if told(rows):
                if not known:
                    demand.taken(wanted)
                return granted(wanted, rows)
        (rows,) = await self._connection.ask([self._take(wanted)])
        joined = joined_in(rows[0][0]) if rows else None
        if rows and joined is None:
            demand.taken(wanted)
            return granted(wanted, rows)
        demand.refused(wanted)
        if joined is not None:
            return Seen(None, 0, joined)
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

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        """One whose bell hangs on a connection of its own is given back there, and with its bell,
        by one statement. One that nobody else holds beside is given back by a short one.
        """
        if len(holds) == 1 and self._bells.lends(holds[0].claim_id):
            (statement,) = self._say.give_back_ringing
            arguments = holds[0]._asdict() | {"bell": bell(holds[0].claim_id)}
            said = bound(statement, arguments)
            rows = await self._connection.do(lambda: self._bells.give_back(holds[0].claim_id, said))
            if rows is not None:
                return [written(holds[0], rows)]
        elif len(holds) == 1 and holds[0].alone:
            given = await self._each(self._say.give_back_alone, holds)
            if given[0].row is not None:
                return given
        return await super().give_back(holds)

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


def told(rows: Rows) -> bool:
    """Whether it was done, by a statement that always tells. What it has done and not told cannot
    be believed: neither a grant nor a release.
    """
    if rows is UNTOLD:
        message = (
            "the server does not tell what a statement did to the table of locks: a trigger on it "
            "writes to another table. Drop the trigger; `history=` keeps what happens to locks"
        )
        raise ConfigurationError(message, backend="mysql")
    return bool(rows)


def joined_in(number: int) -> Joined | None:
    """What `take_alone` says of a place in line; None: it says something else."""
    if number < _FLAG:
        return None
    place, milliseconds = number >> 60 & 3, number >> 48 & 0xFFF
    return Joined(_shown(number), place, milliseconds * 1000)


def written(wanted: GiveBack, rows: Rows) -> Seen:
    """What a write that answers by a number has left, if it was done."""
    if not told(rows):
        return Seen(None, 0)
    number = rows[0][0]
    first = _shown(number) if number >= _FLAG else ""
    return Seen(Row(stamp=wanted.stamp), 0, first_in_line=first)


def _shown(number: int) -> str:
    return f"{number & 0xFFFF_FFFF_FFFF:012x}"
