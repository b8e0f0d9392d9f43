"""Both colours of a driver that blocks: a caller's own thread waits, or one beside the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from locknut.backends.sql.sql_table import Call, Rows
from locknut.drivers.loop_workers import LoopWorkers

T = TypeVar("T")


class Asking(Protocol):
    """What is asked, and blocks: the methods of a `Connection`, for many threads at a time."""

    def inside(self) -> bool: ...

    def ask(self, calls: Sequence[Call]) -> list[Rows]: ...

    def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool: ...

    def close(self) -> None: ...

    def forked(self) -> None: ...


class BlockingConnection:
    """A `Connection` whose commands block."""

    def __init__(self, asking: Asking):
        self._asking = asking
        self.inside = asking.inside
        self.forked = asking.forked

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        return self._asking.ask(calls)

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        return self._asking.ask_all(calls, good)

    async def do(self, work: Callable[[], T]) -> T:
        """Other work that blocks."""
        return work()

    async def close(self) -> None:
        self._asking.close()

    def dropped(self) -> None:
        self._asking.close()


class LoopConnection:
    """A `Connection` whose commands suspend: threads of ours do them, and no task stands still."""

    inside = staticmethod(bool)
    """Never: the thread of a command has nothing else to do."""

    def __init__(self, asking: Asking, workers: LoopWorkers):
        self._asking = asking
        self._workers = workers

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        return await self._workers.run(lambda: self._asking.ask(calls))

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        return await self._workers.run(lambda: self._asking.ask_all(calls, good))

    async def do(self, work: Callable[[], T]) -> T:
        """Other work that blocks."""
        return await self._workers.run(work)

    async def close(self) -> None:
        self.dropped()

    def dropped(self) -> None:
        self._asking.close()
        self._workers.close()

    def forked(self) -> None:
        self._asking.forked()
        self._workers.forked()
