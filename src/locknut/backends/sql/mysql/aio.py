"""The asyncio colour: the same commands, on threads of their own, so that no task stands still."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from locknut.backends.sql.mysql import sync
from locknut.backends.sql.sql_table import Call, Rows
from locknut.drivers.mysql.loop_workers import LoopWorkers
from locknut.drivers.mysql.session_pool import SessionPool

T = TypeVar("T")


class LoopConnection:
    """A `Connection` whose commands suspend."""

    inside = bool
    """Never: the thread of a command has nothing else to do."""

    def __init__(self, pool: SessionPool):
        self._pool = pool
        settings = pool.settings
        self._workers = LoopWorkers(settings.connections, settings.limit, pool.all_busy)

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        return await self._workers.run(lambda: sync.ask(self._pool, calls))

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        return await self._workers.run(lambda: sync.ask_all(self._pool, calls, good))

    async def do(self, work: Callable[[], T]) -> T:
        return await self._workers.run(work)

    async def close(self) -> None:
        self.dropped()

    def dropped(self) -> None:
        self._pool.close()
        self._workers.close()

    def forked(self) -> None:
        self._pool.forked()
        self._workers.forked()
