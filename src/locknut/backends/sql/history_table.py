"""History as rows of a table of its own: how a stream is written, kept short, and read.

A batch and what is cut off for it are one transaction: a user that may not delete writes nothing,
and the table cannot grow without a bound. Not every batch cuts. Counting costs as much as there is
to keep, so it is left to chance, and comes about ten times while as many entries are added as are
wanted, however many processes write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from locknut.backends.sql.sql_table import Call, Connection, Rows
from locknut.backends.sql.statements import HistoryStatements
from locknut.backends.sql.table_port import US
from locknut.core.values import History

CUTS: Final = 10
"""How often a stream is cut, while as many entries are added as are to be kept."""
AT_ONCE: Final = 2000
"""Rows that are deleted at a time."""
ALL: Final = 1 << 60


class HistoryTable:
    """All streams of one table of locks, by a connection that is used for nothing else."""

    def __init__(
        self, connection: Connection, statements: HistoryStatements, chance: Callable[[], float]
    ):
        self._connection = connection
        self._say = statements
        self._chance = chance
        self._cut_before = False
        self.dropped = connection.dropped
        self.forked = connection.forked

    async def write(self, stream: str, texts: Sequence[str], keep: int) -> None:
        texts = texts[-keep:] if keep else ()
        calls = [Call(self._say.add, {"stream": stream, "entry": _stored(text)}) for text in texts]
        if not keep or self._is_to_cut(len(texts), keep):
            calls += await self._cuts(stream, keep - len(texts), AT_ONCE if keep else ALL)
        if calls:
            await self._connection.ask_all(calls, _whatever)
        self._cut_before = True

    def _is_to_cut(self, added: int, keep: int) -> bool:
        """For certain to begin with, so that a right which is missing is noticed at once."""
        return not self._cut_before or self._chance() < CUTS * added / keep

    async def _cuts(self, stream: str, kept: int, limit: int) -> list[Call]:
        asked = Call(self._say.look, {"stream": stream, "kept": kept})
        (rows,) = await self._connection.ask([asked])
        return [
            Call(self._say.drop, {"stream": which, "upto": number, "limit": limit})
            for which, number in rows
        ]

    async def read(self, stream: str, back: float | None) -> History:
        microseconds = ALL if back is None else int(back * US)
        asked = Call(self._say.read, {"stream": stream, "back": microseconds})
        (rows,) = await self._connection.ask([asked])
        now = rows[0][0]
        found = [(at / US, _shown(entry)) for _, at, entry in rows if at is not None]
        return History(now / US, found)


def _whatever(_answers: list[Rows]) -> bool:
    return True


def _stored(text: str) -> str:
    """In ASCII, which every database takes, whatever its encoding: what is in ASCII, as it is."""
    return text.encode("unicode_escape").decode("ascii")


def _shown(entry: str) -> str:
    return entry.encode("ascii", "replace").decode("unicode_escape", "replace")
