"""How a server that is gone is noticed without asking it, and left alone until it may be back."""

from __future__ import annotations

import contextlib
import socket
from typing import Final

from locknut.drivers.redis.endpoints import TimeAndChance
from locknut.errors import BackendUnavailable

FIRST_PAUSE: Final = 0.01
LONGEST_PAUSE: Final = 0.25
"""Seconds for which a server that could not be reached is left alone: callers fail at once."""
_PROBES: Final = (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))
"""A peer that vanished without a word is noticed after half a minute, by the kernel."""


class Recovery:
    """Many callers wait for one server: its return is tried for by one of them at a time."""

    def __init__(self) -> None:
        self._failures = 0
        self._until = float("-inf")
        self._why = ""

    def ensure_time(self, clock: TimeAndChance) -> None:
        """Raise if it was tried just now, by somebody else."""
        if self._failures and clock.now() < self._until:
            raise BackendUnavailable(self._why, backend="redis")

    def failed(self, error: Exception, clock: TimeAndChance) -> None:
        # One failure does not mean that it is gone for longer: the next caller may reach it.
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0**self._failures) if self._failures else 0.0
        self._failures = min(self._failures + 1, 10)
        self._why = error.args[0] if error.args else type(error).__name__
        self._until = clock.now() + pause * (0.5 + clock.random() / 2)

    def reached(self) -> None:
        self._failures = 0


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel look after an idle connection, as far as it can."""
    with contextlib.suppress(OSError):  # a unix socket has no need of it
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
