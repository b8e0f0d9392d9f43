"""The table of locks on a real database: statements of its dialect, sent by a connection.

What a statement did is read back from the row, never believed from a count of affected rows (S14).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from locknut.backends.sql.hold_records import number_of
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.table_port import CLIENT, Extension, GiveBack, Row, Seen, Swap, Take

Rows = Sequence[Sequence[Any]]
_new_tuple = tuple.__new__


class Call(NamedTuple):
    """Statements that go out together with these arguments."""

    statements: tuple[str, ...]
    arguments: Mapping[str, object]


class Connection(Protocol):
    """A way to the database, in one colour. It creates the table where there is none yet."""

    @property
    def inside(self) -> Callable[[], bool]:
        """Says whether the calling thread is in the middle of a command: `Backend.inside`."""

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        """Each by itself, in one round trip; of each, the rows of its first statement that has
        any.
        """

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        """In one transaction, which is undone unless the answers are good."""

    async def close(self) -> None: ...

    def forked(self) -> None: ...

    def dropped(self) -> None: ...


class SqlTable:
    """A `Table` that says each statement in SQL."""

    def __init__(self, connection: Connection, statements: Statements):
        self._connection = connection
        self._say = statements
        self.inside = connection.inside
        self.close = connection.close
        self.forked = connection.forked
        self.dropped = connection.dropped

    async def take(self, wanted: Take) -> Seen:
        (rows,) = await self._connection.ask([self._take(wanted)])
        return seen_in(rows)

    async def take_all(self, wanted: Sequence[Take]) -> list[Seen] | None:
        found: list[Seen] = []

        def all_taken(answers: list[Rows]) -> bool:
            found[:] = [seen_in(rows) for rows in answers]
            pairs = zip(found, wanted, strict=True)
            return all(number_of(seen, each.claim_id) is not None for seen, each in pairs)

        taken = await self._connection.ask_all([self._take(each) for each in wanted], all_taken)
        return found if taken else None

    def _take(self, wanted: Take) -> Call:
        arguments = wanted._asdict()
        arguments["queue"] = int(wanted.queue)
        alone = wanted.mode == "e" and not wanted.owner
        return Call((alone and self._say.take_alone) or self._say.take, arguments)

    async def extend(self, holds: Sequence[Extension]) -> list[bool]:
        in_order = sorted(holds, key=lambda hold: hold.key)
        calls = [Call(self._say.extend, hold._asdict()) for hold in in_order]
        answers = await self._connection.ask(calls)
        extended = {hold for hold, rows in zip(in_order, answers, strict=True) if rows}
        return [hold in extended for hold in holds]

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        return await self._each(self._say.give_back, holds)

    async def sweep(self, holds: Sequence[GiveBack]) -> list[Seen]:
        return await self._each(self._say.sweep, holds)

    async def leave(self, places: Sequence[GiveBack]) -> list[Seen]:
        return await self._each(self._say.leave, places)

    async def _each(self, say: tuple[str, ...], wanted: Sequence[GiveBack]) -> list[Seen]:
        answers = await self._connection.ask([Call(say, each._asdict()) for each in wanted])
        return [seen_in(rows) for rows in answers]

    async def read(self, keys: Sequence[bytes]) -> tuple[list[Row | None], int]:
        calls = [Call(self._say.read, {"key": key}) for key in keys]
        found = [seen_in(rows) for rows in await self._connection.ask(calls)]
        return [seen.row for seen in found], min(seen.now for seen in found)

    async def swap(self, swaps: Sequence[Swap]) -> bool:
        calls = [self._swap(each) for each in swaps]

        def all_swapped(answers: list[Rows]) -> bool:
            read_back = zip(answers, swaps, strict=True)
            return all(rows and rows[0][0] == each.row.stamp for rows, each in read_back)

        if len(calls) > 1:
            return await self._connection.ask_all(calls, all_swapped)
        return all_swapped(await self._connection.ask(calls))

    def _swap(self, swap: Swap) -> Call:
        arguments: dict[str, object] = {"key": swap.key, **swap.row._asdict()}
        if swap.stamp is None:
            return Call(self._say.add, arguments)
        return Call(self._say.swap, {**arguments, "known": swap.stamp})

    async def scan(
        self, prefix: bytes, after: bytes, limit: int
    ) -> tuple[list[tuple[bytes, Row]], int]:
        bounds = {"start": max(prefix, after), "end": _end(prefix), "after": after, "limit": limit}
        (rows,) = await self._connection.ask([Call(self._say.scan, bounds)])
        found = [(bytes(row[0]), Row(*row[1:-1])) for row in rows]
        return found, min((row[-1] for row in rows), default=0)

    async def beat(self, client: str, ttl: int) -> None:
        arguments = {"key": CLIENT + client.encode(), "ttl": ttl}
        await self._connection.ask([Call(self._say.beat, arguments)])

    async def living(self, clients: Sequence[str], longest: int) -> set[str]:
        keys = [CLIENT + client.encode() for client in clients]
        calls = [Call(self._say.living, {"key": key, "longest": longest}) for key in keys]
        answers = await self._connection.ask(calls)
        return {client for client, rows in zip(clients, answers, strict=True) if rows}

    async def prune(self, limit: int) -> int:
        (rows,) = await self._connection.ask([Call(self._say.prune, {"limit": limit})])
        return len(rows)

    async def version(self) -> str:
        (rows,) = await self._connection.ask([Call(self._say.version, {})])
        return str(rows[0][0])


def seen_in(rows: Rows) -> Seen:
    """A row and the clock; no rows at all: the statement changed nothing."""
    if not rows:
        return Seen(None, 0)
    found = rows[0]
    row = None if found[1] is None else _new_tuple(Row, found[:-1])  # half the price of Row(...)
    return Seen(row, found[-1])


def _end(prefix: bytes) -> bytes:
    """The least key that is greater than all that begin with this prefix: none of ours has 0xff."""
    return prefix + b"\xff"
