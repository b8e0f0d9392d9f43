"""The table in a file: an uncontended pair says its two statements in few steps.

SQLite answers in microseconds, and what Python does around a statement costs more than that.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

from locknut.backends.sql.sql_table import Connection, SqlTable
from locknut.backends.sql.statements import Statements
from locknut.backends.sql.table_port import GiveBack, Seen, Take


class FileConnection(Connection, Protocol):
    """A way to the file, in one colour."""

    async def say(self, statements: tuple[str, ...], wanted: Take | GiveBack) -> Seen:
        """`ask` for one call that waits for the disk; what its first statement saw that saw any."""


class FileTable(SqlTable):
    """A `Table` in a file."""

    def __init__(self, connection: FileConnection, statements: Statements):
        super().__init__(connection, statements)
        self._file: FileConnection = connection
        self._take_alone = statements.take_free + statements.take_alone

    def take(self, wanted: Take) -> Coroutine[Any, Any, Seen]:
        if wanted.mode == "e" and not wanted.owner:
            return self._file.say(self._take_alone, wanted)
        return super().take(wanted)

    async def give_back(self, holds: Sequence[GiveBack]) -> list[Seen]:
        if len(holds) == 1:
            return [await self._file.say(self._say.give_back, holds[0])]
        return await super().give_back(holds)
