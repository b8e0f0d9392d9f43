"""Several processes that use one lock at the same time, and what they have to tell.

Each member is forked from this process, which itself never opens a lock, so all start alike and
within milliseconds. They meet in shared memory: a `Board` of numbers that all of them see at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import time
from collections.abc import Callable, Coroutine
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

from benchmarks.file_locks import FILE_LOCKS, FileLock

_fork = multiprocessing.get_context("fork")
PATIENCE = 120.0
"""A crew that takes longer has lost a wake-up: that is an error, not a slow result."""


class Board:
    """Numbers in shared memory, each written by one process at a time."""

    def __init__(self, size: int):
        self._numbers: Any = RawArray(ctypes.c_int64, size)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: int) -> int:
        number: int = self._numbers[place]
        return number

    def __setitem__(self, place: int, number: int) -> None:
        self._numbers[place] = number


class Lock:
    """A file lock that looks the same in both colours: everything is awaited."""

    def __init__(self, kind: FileLock, folder: Path):
        self._pair = kind.open(folder)
        self._asyncio = kind.asyncio

    async def acquire(self) -> None:
        result = self._pair.acquire()
        if self._asyncio:
            await result

    async def release(self) -> None:
        result = self._pair.release()
        if self._asyncio:
            await result

    async def pause(self, seconds: float) -> None:
        if self._asyncio:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251  # the blocking colour blocks


Role = Callable[[Lock], Coroutine[Any, Any, Any]]


class Member:
    """One process that opens the lock, plays its role, and sends back what it returns."""

    def __init__(self, name: str, folder: Path, role: Role):
        self._answer, theirs = _fork.Pipe(duplex=False)
        self._process = _fork.Process(target=_play, args=(name, folder, role, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def result(self) -> Any:
        """What its role returned; an error there is an error here."""
        if not self._answer.poll(PATIENCE):
            self.stop()
            raise TimeoutError("a member of the crew did not finish: was a wake-up lost?")
        try:
            result = self._answer.recv()
        except EOFError:
            raise RuntimeError("a member of the crew died: see its error above") from None
        finally:
            self._process.join()
        return result

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _play(name: str, folder: Path, role: Role, answer: Connection) -> None:
    kind = FILE_LOCKS[name]

    async def play() -> Any:
        return await role(Lock(kind, folder))

    if kind.asyncio:
        answer.send(asyncio.run(play()))
    else:
        try:
            play().send(None)
        except StopIteration as done:
            answer.send(done.value)
    answer.close()
    os._exit(0)  # no clean-up: the parent's exit handlers are not ours


def wait_for(what: Callable[[], bool]) -> None:
    """In the parent: look every half millisecond."""
    give_up = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > give_up:
            raise TimeoutError("the crew did not get ready")
        time.sleep(0.0005)
