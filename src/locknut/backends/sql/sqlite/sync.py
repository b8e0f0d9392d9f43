"""The blocking connection: the calling thread waits, for no longer than its caller can."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from locknut.backends.sql.sql_table import Call, Rows
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.errors import BackendUnavailable
from locknut.runtimes.deadlines import time_left


class BlockingConnection:
    """One connection, for all threads that use the backend."""

    def __init__(self, file: SqliteFile, limit: float):
        self._file = file
        self._limit = limit
        self.dropped = file.dropped

    def inside(self) -> bool:
        return self._file.guard.inside()

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
