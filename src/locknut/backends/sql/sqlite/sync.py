"""The blocking connection: the calling thread waits, for no longer than its caller can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from locknut.backends.sql.sql_table import Call, Rows, seen_in
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.errors import BackendUnavailable
from locknut.runtimes.deadlines import current, time_left


class BlockingConnection:
    """One connection, for all threads that use the backend."""

    def __init__(self, file: SqliteFile, limit: float):
        self._file = file
        self._limit = limit
        self.dropped = file.dropped

    def inside(self) -> bool:
        return self._file.guard.inside()

    async def say(self, statements: tuple[str, ...], wanted: Take | GiveBack) -> Seen:
        limit = self._limit if current.until == inf else self._time_left()
        return seen_in(self._file.say(statements, wanted, limit))

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        return self._file.ask(calls, self._time_left())

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        return self._file.ask_all(calls, good, self._time_left())

    def _time_left(self) -> float:
        try:
            return time_left(self._limit)
        except TimeoutError as error:
            message = "the time was over before anything was asked"
            raise BackendUnavailable(message, backend="sqlite") from error

    async def close(self) -> None:
        self._file.close()

    def forked(self) -> None:
        """The connection was closed before the fork."""
