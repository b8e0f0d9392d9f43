"""The blocking colour: a thread sleeps until the last of its answers is there."""

from __future__ import annotations

import _thread
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from locknut.backends.zookeeper.backend import ZooKeeperBackend
from locknut.backends.zookeeper.requests import Batch
from locknut.backends.zookeeper.session import CLOSE_PATIENCE, LIMIT
from locknut.runtimes.deadlines import time_left


class _Bell:
    """Rung once, from another thread."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = _thread.allocate_lock()
        self._lock.acquire()

    def ring(self, _: object = None) -> None:
        with suppress(RuntimeError):
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        return self._lock.acquire(timeout=seconds)


class BlockingBackend(ZooKeeperBackend):
    """For threads."""

    def inside(self) -> bool:
        return self.session.sending()

    async def _exchange(self, requests: Sequence[Any]) -> Batch:
        session = self.session
        if not session.connected:
            await self.ready()
        bell, left = _Bell(), self._time_left()
        batch = session.send(requests, bell.ring)
        if not bell.wait(left):
            raise self.unavailable()
        return batch

    async def ready(self) -> None:
        session = self.session
        if session.connected:
            return
        bell, left = _Bell(), self._time_left()
        session.when_connected(bell.ring)
        if session.closed or not bell.wait(left):
            session.do_not_wait(bell.ring)
            raise self.unavailable()

    def _time_left(self) -> float:
        try:
            return time_left(LIMIT)
        except TimeoutError as error:
            raise self.unavailable() from error

    async def close(self) -> None:
        if self._leaving.detach() is not None:
            closing = self.session.leave()
            if closing is not None:
                closing.join(CLOSE_PATIENCE)
