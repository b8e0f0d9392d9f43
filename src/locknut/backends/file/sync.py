"""How a thread sleeps on its bell: `poll`, so a deadline ends it and nothing is left behind."""

from __future__ import annotations

import math
import select
from collections.abc import Callable
from contextlib import suppress

from locknut.backends.file.bells import Bell, Ringer
from locknut.core.ports import Signal

_LONGEST = 3600.0


class PollBell(Bell):
    """A bell for a thread."""

    def __init__(
        self,
        ringer: Ringer,
        signal: Callable[[], Signal],
        now: Callable[[], float],
        abandoned: Callable[[], object],
    ) -> None:
        super().__init__(ringer, signal, now)
        del abandoned  # a thread cannot end in the middle of its wait
        self._poll = select.poll()
        self._woken: list[tuple[int, int]] = []

    async def _wait_for_rings(self, until: float) -> bool:
        self._attend()
        while (left := until - self._now()) > 0:
            ready = self._poll.poll(math.ceil(min(left, _LONGEST) * 1000))
            if ready:
                self._woken = ready
                return True
        return False

    def follow(self, pids: set[int], *, anew: bool) -> bool:
        self._attend()
        return super().follow(pids, anew=anew)

    def _attend(self) -> None:
        # Only now: the attempt for which we were woken came first.
        for fd, _ in self._woken:
            if self._rings(fd):
                self._take_ring()
            else:
                self._ended(fd)
        self._woken = []

    def close_later(self) -> bool:
        return False

    def _listen_to(self, fd: int) -> None:
        self._poll.register(fd, select.POLLIN)

    def _stop_listening_to(self, fd: int) -> None:
        with suppress(KeyError, ValueError):  # never begun, or closed: Ctrl-C came in between
            self._poll.unregister(fd)
