"""The asyncio connection: a thread asks, one command after the other; the loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from locknut.backends.sql.sql_table import Call, Rows, seen_in
from locknut.backends.sql.sqlite.sqlite_file import SqliteFile
from locknut.backends.sql.table_port import GiveBack, Seen, Take
from locknut.errors import BackendUnavailable
from locknut.runtimes import cpython
from locknut.runtimes.inline_future import InlineFuture

T = TypeVar("T")
IDLE: Final = 10.0
"""Seconds after which a thread without work ends; the next command starts another."""


class _Work(NamedTuple):
    do: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: InlineFuture


class AsyncioConnection:
    """One connection, for all tasks that use the backend."""

    def __init__(self, file: SqliteFile, limit: float):
        self._file = file
        self._limit = limit
        self._worker = _Worker()

    inside = staticmethod(bool)
    """No command runs on the caller's thread."""

    async def say(self, statements: tuple[str, ...], wanted: Take | GiveBack) -> Seen:
        return seen_in(await self._run(lambda: self._file.say(statements, wanted, self._limit)))

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        return await self._run(lambda: self._file.ask(calls, self._limit))

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        return await self._run(lambda: self._file.ask_all(calls, good, self._limit))

    async def _run(self, do: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        answer = InlineFuture(loop)
        self._worker.give(_Work(do, loop, answer))
        return await answer  # type: ignore[no-any-return]  # what `do` returns

    async def close(self) -> None:
        await self._run(self._file.close)
        self._worker.end()

    def forked(self) -> None:
        """Threads stay with the parent; the connection was closed before the fork."""
        self._worker = _Worker()

    def dropped(self) -> None:
        self._file.dropped()
        self._worker.end()


class _Worker:
    """A thread while there is work."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._mutex = threading.RLock()  # a finalizer may come back in; no step minds
        self._runs = False

    def give(self, work: _Work) -> None:
        with self._mutex:
            self._queue.put(work)
            if self._runs:
                return
            self._runs = True
        thread = cpython.UnawaitedThread(target=self._work, name="locknut-sqlite", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            self._runs = False
            message = f"no thread could be had to ask the file: {error}"
            raise BackendUnavailable(message, backend="sqlite") from error

    def end(self) -> None:
        """After what has been given so far; from any thread."""
        self._queue.put(None)

    def _work(self) -> None:
        while True:
            try:
                work = self._queue.get(timeout=IDLE)
            except Empty:
                work = None
            if work is not None:
                _do(work)
                work = None  # a resting thread keeps nothing alive
                continue
            with self._mutex:
                if self._queue.empty():
                    self._runs = False
                    return


def _do(work: _Work) -> None:
    answer, error = None, None
    try:
        answer = work.do()
    except BaseException as raised:  # noqa: BLE001 -- the task that asked gets it
        error = raised
    with suppress(RuntimeError):  # the loop was closed
        work.loop.call_soon_threadsafe(_tell, work.answer, answer, error)


def _tell(future: InlineFuture, answer: object, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(answer)
    else:
        future.set_exception(error)
