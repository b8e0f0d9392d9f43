"""Several processes that use one lock at the same time, and what they have to tell.

Each member is forked from this process, which itself never opens a lock, so all start alike and
within milliseconds. It plays one role, or several at once: as threads in the blocking colour, as
tasks in the other, with one client between them. All of them meet in shared memory: a `Board` of
numbers that everybody sees at once.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import RawArray
from typing import Any

from benchmarks.kinds import NAME, Kind, Pair

_fork = multiprocessing.get_context("fork")
PATIENCE = 60.0
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
    """A lock that looks the same in both colours: everything is awaited."""

    def __init__(self, pair: Pair, *, awaited: bool):
        self._pair = pair
        self._asyncio = awaited

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
    """One process that opens the lock, plays its roles, and sends back what they return."""

    def __init__(self, kind: Kind, place: str, *roles: Role):
        import_module(kind.module)  # once, here: not by every process while others already run
        self._answer, theirs = _fork.Pipe(duplex=False)
        self._process = _fork.Process(target=_play, args=(kind, place, roles, theirs), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def over(self) -> bool:
        """Whether it has told its results, or has ended without."""
        return self._answer.poll()

    def results(self) -> list[Any]:
        """What its roles returned; an error there is an error here."""
        if not self._answer.poll(PATIENCE):
            self.stop()
            raise TimeoutError("a member of the crew did not finish: was a wake-up lost?")
        try:
            told = self._answer.recv()
        except EOFError:
            raise RuntimeError("a member of the crew died") from None
        finally:
            self.stop()
        results: list[Any] | None = told.get("results")
        if results is None:
            raise RuntimeError(told["problem"])
        return results

    def result(self) -> Any:
        """Of the only role."""
        (result,) = self.results()
        return result

    def stop(self) -> None:
        self._process.kill()
        self._process.join()


def _play(kind: Kind, place: str, roles: Sequence[Role], answer: Connection) -> None:
    try:
        if kind.asyncio:
            results = kind.loop().run_until_complete(_tasks(kind, place, roles))
        else:
            results = _threads(kind, place, roles)
        _send(answer, results=results)
    except Exception as problem:  # noqa: BLE001  # whatever a peer may raise
        last = traceback.extract_tb(problem.__traceback__)[-1]
        _send(answer, problem=f"{type(problem).__name__}: {problem} ({last.name})")
    os._exit(0)  # no clean-up: not of the loop, and the parent's exit handlers are not ours


def _send(answer: Connection, **told: Any) -> None:
    with suppress(OSError):
        answer.send(told)


async def _tasks(kind: Kind, place: str, roles: Sequence[Role]) -> list[Any]:
    opened = kind.open(place)
    return await asyncio.gather(*(role(Lock(opened(NAME), awaited=True)) for role in roles))


def _threads(kind: Kind, place: str, roles: Sequence[Role]) -> list[Any]:
    opened = kind.open(place)

    def play(role: Role) -> Any:
        return finished(role(Lock(opened(NAME), awaited=False)))

    if len(roles) == 1:
        return [play(roles[0])]
    with ThreadPoolExecutor(len(roles)) as threads:
        return list(threads.map(play, roles))


def finished(steps: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that never waits for a loop."""
    try:
        steps.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the blocking colour has to block, not to wait")


def wait_for(what: Callable[[], bool], crew: Sequence[Member] = ()) -> None:
    """In the parent: look every half millisecond; if one of them ends early, say why."""
    give_up = time.monotonic() + PATIENCE
    while not what():
        for member in crew:
            if member.over:
                member.results()
        if time.monotonic() > give_up:
            raise TimeoutError("the crew did not get ready")
        time.sleep(0.0005)
