"""One connection to a member for a thread: a call goes out, and its answer is waited for."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Final

from locknut.drivers.etcd import grpc_errors
from locknut.drivers.etcd.calls import Answer
from locknut.drivers.etcd.http2 import POLITE, Http2
from locknut.drivers.etcd.members import Host, Turn
from locknut.drivers.etcd.settings import Settings
from locknut.runtimes import sockets
from locknut.runtimes.clock import now

IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle connection is looked at before it is used."""
_AT_ONCE: Final = 65536


class Connection:
    """One socket. Used by one thread at a time; after any doubt it is closed."""

    def __init__(self, settings: Settings, turn: Turn, limit: float):
        self.turn = turn
        self.used = 0.0
        self.http2 = Http2()
        self._thanked = 0.0
        self._socket = _opened(settings, turn.host, limit)

    def call(self, head: bytes, message: bytes, limit: float) -> tuple[Answer, float]:
        """The answer, with its status, and when it was asked for."""
        answer, http2, sent = Answer(), self.http2, now()
        until = sent + limit
        self._socket.settimeout(limit)
        http2.open(answer, head, message)
        thanks = sent - self._thanked >= POLITE
        if thanks:
            self._thanked = sent
        self._socket.sendall(http2.take_output(thanks=thanks))
        while answer.status is None:
            self._receive()
            if answer.status is None:  # a part of it, or something between
                if http2.presses:
                    self._socket.sendall(http2.take_output(thanks=False))
                left = until - now()
                if left <= 0:
                    raise TimeoutError
                self._socket.settimeout(left)
        self.used = now()
        return answer, sent

    def _receive(self) -> None:
        data = self._socket.recv(_AT_ONCE)
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self.http2.feed(data)

    @property
    def greeted(self) -> bool:
        return self.http2.greeted

    def usable(self) -> bool:
        """Whether the server has not hung up; what else it says between two calls is heard, too."""
        if now() - self.used < IDLE_UNCHECKED:
            return not self.http2.leaving
        try:
            self.hear()
        except (OSError, ValueError):
            return False
        return not self.http2.leaving

    def hear(self) -> None:
        """Take in what has come, without waiting."""
        self._socket.settimeout(0)
        with suppress(BlockingIOError, ssl.SSLWantReadError):
            while True:
                self._receive()

    def send(self, limit: float) -> None:
        """What is to be sent, outside of a call."""
        if self.http2.has_output:
            self._socket.settimeout(limit)
            self._socket.sendall(self.http2.take_output())

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


def _opened(settings: Settings, host: Host, limit: float) -> socket.socket:
    """A connected socket, with TLS around it if that is wanted."""
    made = sockets.connected(host, limit)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made if settings.tls is None else sockets.encrypted(made, settings.tls, host[0])
    except BaseException as error:
        made.close()
        if isinstance(error, OSError):
            grpc_errors.doubt(settings, error, connected=False)
        raise
