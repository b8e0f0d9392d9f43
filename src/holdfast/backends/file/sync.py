"""How a thread sleeps on its bell: `poll`, so a deadline ends it and nothing is left behind."""

from __future__ import annotations

import math
import select

from holdfast.backends.file.bells import Bell, Ringer
from holdfast.runtimes.clock import now

_LONGEST = 3600.0


class PollBell(Bell):
    """A bell for a thread."""

    def __init__(self, ringer: Ringer) -> None:
        super().__init__(ringer)
        self._poll = select.poll()
        self._rung = False
        self._listen_to(self._socket.fileno())

    async def wait(self, until: float) -> bool:
        # The ring that woke us last is taken only now: the attempt it was for came first.
        if self._rung:
            self._rung = False
            self._take_ring()
        while (left := until - now()) > 0:
            ready = self._poll.poll(math.ceil(min(left, _LONGEST) * 1000))
            for fd, _ in ready:
                if fd == self._socket.fileno():
                    self._rung = True
                else:
                    self._ended(fd)
            if ready:
                return True
        return False

    def close_later(self) -> bool:
        return False

    def _listen_to(self, fd: int) -> None:
        self._poll.register(fd, select.POLLIN)

    def _stop_listening_to(self, fd: int) -> None:
        self._poll.unregister(fd)
