"""A node that fell silent: whether it answers again is found out without waiting for it.

A frozen process still has its connections accepted, by the kernel, so each try would cost a whole
time limit; and whoever pays it, the keeper for one, cannot look after other nodes meanwhile.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress
from time import monotonic

from locknut.drivers.redis import wire
from locknut.drivers.redis.settings import Settings

_PING = wire.pack(b"PING")


class Silence:
    """From a command that was not answered in time until the node says anything at all."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._probe: Probe | None = None
        self._mutex = threading.Lock()

    def begin(self) -> None:
        with self._mutex:
            if self._probe is None:
                self._ask()

    def ensure_over(self) -> None:
        """Raise at once while it lasts."""
        if self._probe is None:
            return
        with self._mutex:
            over = self._probe is None or self._probe.over()
            if over:
                self._end()
            elif self._probe is not None and self._probe.late():
                self._end()
                self._ask()
        if not over:
            raise wire.unreachable(self._settings, TimeoutError())

    def end(self) -> None:
        """Also in a forked child, where the thread that had the mutex does not exist."""
        self._mutex = threading.Lock()
        self._end()

    def _ask(self) -> None:
        with suppress(OSError):  # where nothing can be asked, the usual way has to do
            self._probe = Probe(self._settings)

    def _end(self) -> None:
        probe, self._probe = self._probe, None
        if probe is not None:
            probe.close()


class Probe:
    """One connection on which one question is out; nothing here waits."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._until = monotonic() + settings.limit
        self._asked = False
        # A node is nearly always named by its number, so that nothing has to be looked up.
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = found[0]
        self._socket = socket.socket(family, kind, protocol)
        self._socket.setblocking(False)
        self._socket.connect_ex(address)

    def over(self) -> bool:
        """Whether there is any sign of it; that it refuses will do: trying costs no time then."""
        try:
            if not self._asked and self._ready(select.POLLOUT):
                self._ask()
            return self._asked and self._answered()
        except OSError:
            return True

    def late(self) -> bool:
        return monotonic() > self._until

    def close(self) -> None:
        self._socket.close()

    def _ask(self) -> None:
        self._asked = True
        if self._settings.tls is None:
            self._socket.send(_PING)
        else:
            self._socket = self._settings.tls.wrap_socket(
                self._socket, server_hostname=self._settings.host, do_handshake_on_connect=False
            )

    def _answered(self) -> bool:
        if not isinstance(self._socket, ssl.SSLSocket):
            return self._ready(select.POLLIN)
        try:
            self._socket.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        return True

    def _ready(self, wanted: int) -> bool:
        poll = select.poll()
        poll.register(self._socket, wanted)
        return bool(poll.poll(0))
