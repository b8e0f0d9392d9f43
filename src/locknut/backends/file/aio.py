"""How a task sleeps on its bell: the loop watches the descriptors; no thread is ever involved.

A loop can be closed while its tasks wait. They never learn of it, so nothing here keeps them alive,
and what they wanted is withdrawn when the loop is closed: else a ghost would stand in the line.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from locknut.backends.file.bells import Bell, Ringer
from locknut.core.ports import Signal
from locknut.runtimes.cpython import members

_DAY: Final = 86400.0


class LoopBell(Bell):
    """A bell for a task of the running loop."""

    def __init__(
        self,
        ringer: Ringer,
        signal: Callable[[], Signal],
        now: Callable[[], float],
        abandoned: Callable[[], object],
    ) -> None:
        super().__init__(ringer, signal, now)
        self._loop = asyncio.get_running_loop()
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None
        self.abandoned = abandoned
        """To be called when the loop is closed under its waiter."""
        _bells_of(self._loop).add(self)

    async def _wait_for_rings(self, until: float) -> bool:
        while not self._rung:
            left = until - self._now()
            if left <= 0:
                return False
            await self._sleep(left)
        self._rung = False
        return True

    def close_later(self) -> bool:
        try:
            self._loop.call_soon(self.close)
        except RuntimeError:  # the loop is closed
            self.close()
        return True

    async def _sleep(self, longest: float) -> None:
        self._sleeper = self._loop.create_future()
        alarm = self._loop.call_later(min(longest, _DAY), self._wake)
        try:
            await self._sleeper
        finally:
            alarm.cancel()
            self._sleeper = None

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def _ready(self, fd: int) -> None:
        if self._rings(fd):
            self._take_ring()
        else:
            self._ended(fd)
        self._rung = True
        self._wake()

    def _listen_to(self, fd: int) -> None:
        self._loop.add_reader(fd, self._ready, fd)

    def _stop_listening_to(self, fd: int) -> None:
        # The loop is closed; or this is a forked child, where the descriptor is closed already.
        with suppress(RuntimeError, ValueError):
            self._loop.remove_reader(fd)


class _Sentinel:
    """Known to nobody but its loop, which forgets it when it is closed."""

    __slots__ = ("__weakref__",)


_by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakSet[LoopBell]] = (
    weakref.WeakKeyDictionary()
)


def _bells_of(loop: asyncio.AbstractEventLoop) -> weakref.WeakSet[LoopBell]:
    bells = _by_loop.get(loop)
    if bells is None:
        bells = _by_loop[loop] = weakref.WeakSet()
        sentinel = _Sentinel()
        weakref.finalize(sentinel, _closed, bells).atexit = False
        _stay(weakref.ref(loop), sentinel)
    return bells


def _stay(loop: weakref.ref[asyncio.AbstractEventLoop], sentinel: _Sentinel) -> None:
    """A timer is the one thing that every loop keeps, and drops when it is closed."""
    running = loop()
    if running is not None:
        with suppress(RuntimeError):
            running.call_later(_DAY, _stay, loop, sentinel)


def _closed(bells: weakref.WeakSet[LoopBell]) -> None:
    for bell in members(bells):
        bell.abandoned()
