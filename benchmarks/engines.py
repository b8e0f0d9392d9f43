"""Engines to measure the core with: one whose commands take a known time, one that counts them.

The delay of the blocking colour is a plain sleep, and that of the asyncio colour `asyncio.sleep`:
a real command leaves the processor to others, so it is not spun away. Two things make it last about
as long as it says: the kernel may end a sleep 50 microseconds late, unless `sharp_timers` asks it
for 1; and an event loop on epoll counts in milliseconds, so `sharp_loop` makes one on select, which
counts in microseconds. What a command took in truth is measured and reported.
"""

from __future__ import annotations

import asyncio
import ctypes
import selectors
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from locknut.backends.memory import MemoryEngine
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime, Signal
from locknut.core.values import Claim, Renewal

PR_SET_TIMERSLACK = 29
COMMANDS = ("attempt", "renew", "release", "downgrade", "detach", "attach", "break_hold", "inspect")

Around = Callable[[str, Callable[..., Coroutine[Any, Any, Any]]], Callable[..., Any]]


class Wrapped:
    """A backend whose commands go through `around`; everything else goes straight through."""

    def __init__(self, inner: Any, around: Around):
        self._inner = inner
        self.name = inner.name
        self.capabilities = inner.capabilities
        self.default_ttl = inner.default_ttl
        self.min_ttl = inner.min_ttl
        self.max_ttl = inner.max_ttl
        self.heartbeat = inner.heartbeat
        for command in COMMANDS:
            setattr(self, command, around(command, getattr(inner, command)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # only for mypy's eyes: the commands are set above

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        found: AbstractContextManager[Signal] = self._inner.watch(claim, signal)
        return found

    def listen(self, news: Callable[[str | None, Renewal], None]) -> None:
        self._inner.listen(news)

    async def close(self) -> None:
        await self._inner.close()

    def forked(self) -> None:
        self._inner.forked()


class DelayedEngine(BaseEngine):
    """The memory engine behind a network: each command takes `delay` seconds longer."""

    def __init__(self, delay: float):
        self._inner = MemoryEngine("delayed")
        self.id = self._inner.id
        self.delay = delay

    def blocking(self, runtime: Runtime) -> Any:
        async def wait() -> None:
            time.sleep(self.delay)  # noqa: ASYNC251  # the blocking colour blocks

        return Wrapped(self._inner.blocking(runtime), partial(_after, wait))

    def asyncio(self, runtime: Runtime) -> Any:
        async def wait() -> None:
            await asyncio.sleep(self.delay)

        return Wrapped(self._inner.asyncio(runtime), partial(_after, wait))


def _after(
    wait: Callable[[], Coroutine[Any, Any, None]],
    _command: str,
    call: Callable[..., Coroutine[Any, Any, Any]],
) -> Callable[..., Any]:
    async def delayed(*args: Any, **options: Any) -> Any:
        await wait()
        return await call(*args, **options)

    return delayed


class CountingEngine(BaseEngine):
    """The memory engine, with the number of commands of each kind and of claims renewed."""

    def __init__(self) -> None:
        self._inner = MemoryEngine("counting")
        self.id = self._inner.id
        self.commands: Counter[str] = Counter()
        self.renewed = 0

    def blocking(self, runtime: Runtime) -> Any:
        return Wrapped(self._inner.blocking(runtime), self._counted)

    def asyncio(self, runtime: Runtime) -> Any:
        return Wrapped(self._inner.asyncio(runtime), self._counted)

    def _counted(
        self, command: str, call: Callable[..., Coroutine[Any, Any, Any]]
    ) -> Callable[..., Any]:
        async def counted(*args: Any, **options: Any) -> Any:
            self.commands[command] += 1
            if command == "renew":
                self.renewed += len(args[0])
            return await call(*args, **options)

        return counted


def sharp_timers() -> None:
    """Have the kernel end sleeps within a microsecond; threads started from here inherit it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0)


def sharp_loop() -> asyncio.AbstractEventLoop:
    """An event loop whose timers are not rounded up to milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())
