"""Blocking connections to one server: a socket, hiredis' reader, and a pile of idle ones.

Measured, this is what costs least: redis-py's own path (pack, pool, parse) takes as long again as
the server. A connection is dropped after any doubt: an answer that comes late is never another's.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final, NoReturn

from hiredis import HiredisError, ReplyError

from holdfast.backends.redis import wire
from holdfast.backends.redis.settings import Settings
from holdfast.errors import BackendUnavailable

MOST_IDLE: Final = 64
IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle connection is looked at before it is used: a server that restarted
has hung up, and a release that is sent to nobody is a release in doubt."""
_AT_ONCE: Final = 65536


class Connection:
    """One socket. Used by one thread at a time."""

    __slots__ = ("_feed", "_gets", "_recv", "_sendall", "_socket", "used")

    def __init__(self, settings: Settings):
        self.used = 0.0
        self._socket = sock = _open(settings)
        reader = wire.reader()
        self._gets, self._feed = reader.gets, reader.feed
        self._recv, self._sendall = sock.recv, sock.sendall
        try:
            for reply in self.send_many(wire.greeting(settings)):
                if isinstance(reply, ReplyError):
                    raise wire.failed(reply)
        except BaseException:
            self.close()
            raise

    def send(self, packed: bytes) -> Any:
        self._sendall(packed)
        self._feed(self._recv(_AT_ONCE))  # nearly always the whole answer
        return self._next()

    def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        if not packed:
            return []
        self._sendall(b"".join(packed))
        return [self._next() for _ in packed]

    def _next(self) -> Any:
        reply = self._gets()
        while reply is wire.NOTHING:
            self._feed(self._recv(_AT_ONCE) or _hung_up())
            reply = self._gets()
        return reply

    def next_within(self, seconds: float) -> Any:
        """What the server says next on its own, or NOTHING if it is silent for so long."""
        until = monotonic() + seconds
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while (reply := self._gets()) is wire.NOTHING:
            unread = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending()
            if not unread and not poll.poll(max(0.0, until - monotonic()) * 1000):
                return wire.NOTHING
            self._feed(self._recv(_AT_ONCE) or _hung_up())
        return reply

    def alive(self) -> bool:
        """Whether the server has not hung up, as far as the kernel knows; it owes us nothing."""
        if self._socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def interrupt(self) -> None:
        """From another thread: whoever waits for an answer here gets an error instead."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def _hung_up() -> NoReturn:
    raise ConnectionResetError("the server closed the connection")


class Pool:
    """The idle connections of one backend."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._idle: list[Connection] = []
        self._kept = MOST_IDLE
        """How many may be idle; none once this is closed, though a last release may still come."""

    @property
    def limit(self) -> float:
        return self._settings.limit

    def longest_slice(self, wanted: float) -> float:
        """A command that is meant to block must be answered well before its time limit."""
        return min(wanted, self._settings.limit / 2)

    def send(self, packed: bytes) -> Any:
        connection = self._take()
        try:
            reply = connection.send(packed)
        except BaseException as error:
            self._drop(connection, error)
            raise
        self._give_back(connection)
        return reply

    def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        with self.lent() as connection:
            return connection.send_many(packed)

    @contextmanager
    def lent(self) -> Iterator[Connection]:
        connection = self._take()
        try:
            yield connection
        except BaseException as error:
            self._drop(connection, error)
            raise
        self._give_back(connection)

    def close(self) -> None:
        self._kept = 0
        self._clear()

    def _clear(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> Connection:
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break  # another thread was faster
            if monotonic() - connection.used < IDLE_UNCHECKED or connection.alive():
                return connection
            connection.close()
        try:
            return Connection(self._settings)
        except (OSError, HiredisError) as error:
            if isinstance(error, BackendUnavailable):
                raise
            raise wire.unreachable(self._settings, error) from error

    def _give_back(self, connection: Connection) -> None:
        if len(self._idle) < self._kept:
            connection.used = monotonic()
            self._idle.append(connection)
        else:
            connection.close()

    def _drop(self, connection: Connection, error: BaseException) -> None:
        """What failed is closed, and so are the idle ones: after a restart they are all dead."""
        connection.close()
        if isinstance(error, OSError | HiredisError):
            self._clear()
            raise wire.unreachable(self._settings, error) from error


def _open(settings: Settings) -> socket.socket:
    if settings.path:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(settings.connect_limit)
        sock.connect(settings.path)
    else:
        address = settings.host, settings.port
        sock = socket.create_connection(address, settings.connect_limit)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if settings.tls is not None:
        sock = settings.tls.wrap_socket(sock, server_hostname=settings.host)
        sock.settimeout(settings.limit)
        return sock
    # The kernel keeps the time limit: Python's own costs a poll() before every call.
    sock.settimeout(None)
    seconds = int(settings.limit)
    limit = struct.pack("ll", seconds, int((settings.limit - seconds) * 1_000_000))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    return sock
