"""Threads that do blocking commands for an event loop: as many as there may be connections.

A task waits for its command's end without its thread's: whoever gives up is not missed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, TypeVar

from locknut.errors import BackendUnavailable
from locknut.runtimes import cpython

T = TypeVar("T")
IDLE: Final = 10.0
"""Seconds after which a thread that has nothing to do ends."""


@dataclass(slots=True)
class _Job:
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    until: float


class LoopWorkers:
    """Started when needed, ended when idle."""

    def __init__(self, backend: str, most: int, limit: float, too_late: Callable[[], Exception]):
        self._backend = backend
        self._most = most
        self._limit = limit
        self._too_late = too_late
        self.forked()

    def forked(self) -> None:
        """The parent's threads are not here."""
        self._mutex = threading.RLock()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads = 0
        self._unfinished = 0

    async def run(self, work: Callable[[], T]) -> T:
        """Do it on a thread. Jobs wait for their turn no longer than a command may take."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        jobs = self._jobs
        job = _Job(work, loop, future, monotonic() + self._limit)
        jobs.put(job)
        with self._mutex:
            self._unfinished += 1
            needed = self._unfinished > self._threads and self._threads < self._most
            self._threads += needed
        if needed and not self._start(jobs):
            job.until = 0.0  # whoever finds it in the queue leaves it alone
            future.cancel()
            message = "no thread could be had to ask the server"
            raise BackendUnavailable(message, backend=self._backend)
        return await future

    def _start(self, jobs: SimpleQueue[_Job | None]) -> bool:
        """One more thread; False if there is none at all, not even an earlier one."""
        name = f"locknut-{self._backend}"
        thread = cpython.UnawaitedThread(target=self._work, args=(jobs,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            with self._mutex:
                self._threads -= 1
                return self._threads > 0
        return True

    def _work(self, jobs: SimpleQueue[_Job | None]) -> None:
        while True:
            try:
                job = jobs.get(timeout=IDLE)
            except Empty:
                job = None
            if job is None:
                with self._mutex:
                    if jobs.empty() or jobs is not self._jobs:
                        self._threads -= jobs is self._jobs
                        return
                continue
            self._do(job)
            with self._mutex:
                self._unfinished -= 1

    def _do(self, job: _Job) -> None:
        try:
            if monotonic() > job.until:
                raise self._too_late()
            result = job.work()
        except BaseException as error:  # noqa: BLE001 -- it is the waiting task's
            _settle(job, job.future.set_exception, error)
        else:
            _settle(job, job.future.set_result, result)

    def close(self) -> None:
        """The threads end when what was asked for is done."""
        with self._mutex:
            for _ in range(self._threads):
                self._jobs.put(None)


def _settle(job: _Job, settle: Callable[[Any], None], value: object) -> None:
    def deliver() -> None:
        if not job.future.done():  # its task may have gone
            settle(value)

    with suppress(RuntimeError):  # the loop was closed meanwhile
        job.loop.call_soon_threadsafe(deliver)
