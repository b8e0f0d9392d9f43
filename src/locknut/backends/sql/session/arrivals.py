"""A thread that rings when something arrives at one of our sessions: one for all that wait."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from locknut.runtimes import cpython, sockets

IDLE: Final = 10.0
"""Seconds after which the thread ends when nobody waits."""


class Arrivals:
    """One engine's."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._rings: dict[int, Callable[[], None]] = {}
        """By descriptor; each is rung once."""
        self._bell: socket.socket | None = None
        """Of the thread, while it runs."""
        self._idle = IDLE

    def expect(self, descriptor: int, ring: Callable[[], None]) -> None:
        """Ring once something is there."""
        with self._mutex:
            self._rings[descriptor] = ring
            if self._bell is None:
                self._start()
        self._wake()

    def _start(self) -> None:
        self._bell, belled = sockets.open_pair()
        # Not waited for: an interrupt (Ctrl-C) in that wait may look as if there were no thread.
        thread = cpython.UnawaitedThread(
            target=self._run, args=(belled,), name="locknut-arrivals", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no thread is to be had: whoever waits looks now and then
            self._end(belled)

    def _end(self, belled: socket.socket) -> None:
        if self._bell is not None:
            self._bell.close()
        self._bell = None
        belled.close()

    def close(self) -> None:
        """Nobody will wait any more: the thread ends when nobody does."""
        self._idle = 0.0
        self._wake()

    def forget(self, descriptor: int) -> None:
        """Before it is closed."""
        with self._mutex:
            found = self._rings.pop(descriptor, None)
        if found is not None:
            self._wake()

    def _wake(self) -> None:
        bell = self._bell
        if bell is not None:
            with suppress(OSError):
                bell.send(b"x")

    def _idle_ms(self) -> float | None:
        return None if self._rings else self._idle * 1000

    def _run(self, belled: socket.socket) -> None:
        while True:
            poll = select.poll()
            poll.register(belled, select.POLLIN)
            with self._mutex:
                for descriptor in self._rings:
                    poll.register(descriptor, select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(self._idle_ms())]
            if belled.fileno() in ready:
                belled.recv(4096)
            with self._mutex:
                rings = [self._rings.pop(each, None) for each in ready]
                if not self._rings and (not ready or not self._idle):
                    self._end(belled)
                    return
            for ring in rings:
                if ring is not None:
                    ring()
