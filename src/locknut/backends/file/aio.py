"""How a task sleeps on its bell: the loop watches the descriptors; no thread is ever involved."""

from __future__ import annotations

import asyncio

from locknut.backends.file.bells import Bell, Ringer
from locknut.runtimes.clock import now


class LoopBell(Bell):
    """A bell for a task of the running loop."""

    def __init__(self, ringer: Ringer) -> None:
        super().__init__(ringer)
        self._loop = asyncio.get_running_loop()
        self._rung = False
        self._sleeper: asyncio.Future[None] | None = None
        self._listen_to(self._socket.fileno())

    async def wait(self, until: float) -> bool:
        while not self._rung:
            left = until - now()
            if left <= 0:
                return False
            await self._sleep(left)
        self._rung = False
        return True

    def close_later(self) -> bool:
        self._loop.call_soon(self.close)
        return True

    async def _sleep(self, longest: float) -> None:
        self._sleeper = self._loop.create_future()
        alarm = self._loop.call_later(longest, self._wake)
        try:
            await self._sleeper
        finally:
            alarm.cancel()
            self._sleeper = None

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def _ready(self, fd: int) -> None:
        if fd == self._socket.fileno():
            self._take_ring()
        else:
            self._ended(fd)
        self._rung = True
        self._wake()

    def _listen_to(self, fd: int) -> None:
        self._loop.add_reader(fd, self._ready, fd)

    def _stop_listening_to(self, fd: int) -> None:
        self._loop.remove_reader(fd)
