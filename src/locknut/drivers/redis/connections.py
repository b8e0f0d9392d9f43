"""A blocking connection to one server: a socket and hiredis' reader.

Measured, this is what costs least: redis-py's own path (pack, pool, parse) takes as long again as
the server.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, NoReturn

from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import MACHINE, TimeAndChance
from locknut.drivers.redis.recovery import keep_alive
from locknut.drivers.redis.settings import Settings
from locknut.runtimes import sockets
from locknut.runtimes.deadlines import current as deadline
from locknut.runtimes.deadlines import time_left

_AT_ONCE: Final = 65536


class Connection:
    """One socket. Used by one thread at a time."""

    __slots__ = (
        "_feed",
        "_gets",
        "_recv",
        "_sendall",
        "_socket",
        "epoch",
        "era",
        "hurried",
        "owes",
        "peer",
        "settings",
        "used",
        "welcome",
    )

    def __init__(self, settings: Settings, *, curious: bool = False):
        self.settings = settings
        self.used = 0.0
        """When it was last known to be in use: idle since then, or for less long."""
        self.era: object = None
        """Which of the pool's servers this leads to."""
        self.epoch = 0
        """The same, for all pools of the endpoint."""
        self.hurried = False
        """Whether less than the usual limit is kept: the last caller had no more time."""
        self.owes: Callable[[Any], bool] | None = None
        """Which is the last answer that it owes to somebody who has left: see `OwedAnswers`."""
        try:
            self._socket = sock = open_socket(settings)
        except OSError as error:
            wire.doubt(settings, error)
            raise
        reader = wire.reader()
        self._gets, self._feed = reader.gets, reader.feed
        self._recv, self._sendall = sock.recv, sock.sendall
        try:
            self.peer = sock.getpeername()
            greeting = wire.greeting(settings, b"2", curious=curious)
            self.welcome = wire.welcome(self.send_many(greeting), curious=curious)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                wire.doubt(settings, error)
            raise

    def send(self, packed: bytes) -> Any:
        if self.hurried or deadline.until != math.inf:
            self._keep_time()
        self._sendall(packed)
        self._feed(self._recv(_AT_ONCE))
        reply = self._gets()  # nearly always the whole answer
        return self.next() if reply is wire.NOTHING else reply

    def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        self.post(packed)
        return self.collect(len(packed))

    def post(self, packed: Sequence[bytes]) -> None:
        """Send, and leave the answers for `collect`: meanwhile others can be sent to."""
        if self.hurried or deadline.until != math.inf:
            self._keep_time()
        self._sendall(b"".join(packed))

    def _keep_time(self) -> None:
        """The caller's time limit, where it is less than the usual one; or that one again."""
        left = time_left(self.settings.limit)
        set_limit(self._socket, left)
        self.hurried = left < self.settings.limit

    def collect(self, count: int) -> list[Any]:
        return [self.next() for _ in range(count)]

    def fileno(self) -> int:
        return self._socket.fileno()

    def next(self) -> Any:
        reply = self._gets()
        while reply is wire.NOTHING:
            self._feed(self._recv(_AT_ONCE) or _hung_up())
            reply = self._gets()
        return reply

    def send_within(self, packed: bytes, seconds: float) -> Any:
        """The answer, or NOTHING if none comes within this time."""
        if seconds == math.inf:
            return self.send(packed)
        self._sendall(packed)
        return self.next_within(seconds)

    def next_within(self, seconds: float) -> Any:
        """What the server says next on its own, or NOTHING if it is silent for this time."""
        if seconds == math.inf:
            return self.next()
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
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
        except ValueError:  # it is closed, perhaps just now by another thread
            return False
        return not poll.poll(0)

    def interrupt(self) -> None:
        """From another thread: a caller that waits for an answer here gets an error instead."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def _hung_up() -> NoReturn:
    raise ConnectionResetError("the server closed the connection")


class BlockingDial:
    """How the blocking colour opens a connection and asks something on it."""

    def __init__(self, clock: TimeAndChance = MACHINE):
        self.clock = clock

    async def open(self, settings: Settings, *, curious: bool = False) -> Connection:
        return Connection(settings.signed(), curious=curious)

    async def ask(self, peer: Connection, packed: bytes) -> Any:
        return peer.send(packed)


def open_socket(settings: Settings) -> socket.socket:
    if settings.path:
        sock = sockets.open_socket(socket.AF_UNIX)
        try:
            sock.settimeout(time_left(settings.connect_limit))
            sock.connect(settings.path)
        except OSError:
            sock.close()
            raise
    else:
        address = settings.host, settings.port
        sock = sockets.connected(address, time_left(settings.connect_limit))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        keep_alive(sock)
    if settings.tls is not None:
        sock = sockets.encrypted(sock, settings.tls, settings.host)
    else:
        sock.settimeout(None)
    set_limit(sock, settings.limit)
    return sock


def set_limit(sock: socket.socket, limit: float) -> None:
    if isinstance(sock, ssl.SSLSocket):
        sock.settimeout(limit)
    else:
        sockets.set_limit(sock, limit)
