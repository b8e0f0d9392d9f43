"""The asyncio colour: a task waits for a future that kazoo's thread fills in through the loop."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.backends.zookeeper.requests import Batch
from locknut.backends.zookeeper.session import CLOSE_PATIENCE, LIMIT


class _Bell:
    """Rung once, from another thread; a closed loop does not hear it."""

    __slots__ = ("_future", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[bool] = self._loop.create_future()

    def ring(self, _: object = None) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._set, True)

    def _set(self, rung: bool) -> None:
        if not self._future.done():
            self._future.set_result(rung)

    async def wait(self, seconds: float) -> bool:
        timer = self._loop.call_later(seconds, self._set, False)
        try:
            return await self._future
        finally:
            timer.cancel()


class AsyncioBackend(ZooKeeperBackend):
    """For tasks."""

    async def _exchange(self, requests: Sequence[Any]) -> Batch:
        session = self.session
        if not session.connected:
            await self.ready()
        bell = _Bell()
        batch = session.send(requests, bell.ring)
        if not await bell.wait(LIMIT):
            raise self.unavailable()
        return batch

    async def ready(self) -> None:
        session = self.session
        if session.connected:
            return
        bell = _Bell()
        session.when_connected(bell.ring)
        if session.closed or not await bell.wait(LIMIT):
            session.do_not_wait(bell.ring)
            raise self.unavailable()

    async def close(self) -> None:
        if self._leaving.detach() is not None:
            closing = self.session.leave()
            if closing is not None:
                bell = _Bell()
                threading.Thread(target=_after, args=(closing, bell.ring), daemon=True).start()
                await bell.wait(CLOSE_PATIENCE)

    def dropped(self) -> None:
        """Nobody closed it: the session ends all the same, on a thread of its own."""
        if self._leaving.detach() is not None:
            connected = self.session.connected
            self.session.leave()  # before the warning, which may be an error
            if connected:
                message = "a locknut.aio.Locks was dropped without `await locks.close()`"
                warnings.warn(message, ResourceWarning, stacklevel=2)


def _after(closing: threading.Thread, ring: Callable[[], None]) -> None:
    closing.join()
    ring()
