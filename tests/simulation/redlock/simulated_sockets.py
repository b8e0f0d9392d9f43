"""Sockets and the poll, for the production connections of the blocking colour.

A socket never blocks, so nothing here waits; who has nothing to do waits in `Poll.happened`.
"""

from __future__ import annotations

import errno
import select
import socket
from collections import deque
from itertools import count
from typing import Any

from tests.simulation.coroutines import Died, Future
from tests.simulation.process import Process
from tests.simulation.redis.client_end import LineEnd

_numbers = count(3)


class Socket:
    """One end: of a connection to a server, or of a pair."""

    def __init__(self, *_: object) -> None:
        assert Process.running is not None
        self._process = Process.running
        self._fd = next(_numbers)
        self._unread: deque[bytes] = deque()
        self._error: OSError | None = None
        self._over = False
        self._end: LineEnd | None = None
        self.other: Socket | None = None
        self.poll: Poll | None = None
        self._process.files[self._fd] = self

    def connect(self, host: str) -> None:
        node = self._process.world.servers[host]
        network = node.network

        def answer() -> None:
            if self._fd not in self._process.files:
                return
            if node.up:
                self._end = LineEnd(self._process, node)
                self._end.received, self._end.over = self.take, self._hung_up
            else:
                self._error = ConnectionRefusedError("refused")
            self._stir()

        cut_off = self._process.name in node.strangers
        if not cut_off and not network.befalls("request_lost"):
            network.world.after(network.delay(), lambda: self._process.soon(answer))
        raise BlockingIOError

    def send(self, data: bytes) -> int:
        if self._error is not None:
            raise self._error
        if self.other is not None:
            self.other.take(data)
        elif self._end is None:
            raise OSError(errno.ENOTCONN, "not yet")
        elif self._end.closed:
            raise BrokenPipeError
        else:
            self._end.wire.request(data)
        return len(data)

    def recv(self, _: int) -> bytes:
        if self._unread:
            return self._unread.popleft()
        if self._error is not None:
            raise self._error
        if self._over:
            return b""
        raise BlockingIOError

    def events(self) -> int:
        event = select.POLLIN if self._unread or self._over or self._error else 0
        return event | (select.POLLOUT if self._end is not None else 0)

    def take(self, data: bytes) -> None:
        self._unread.append(data)
        self._stir()

    def _hung_up(self) -> None:
        self._over = True
        self._stir()

    def _stir(self) -> None:
        if self.poll is not None:
            self.poll.stir()

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        self._process.files.pop(self._fd, None)
        end, self._end = self._end, None
        if end is not None:
            end.received, end.over = _nothing, _nothing
            end.close()

    def setblocking(self, *_: object) -> None:
        """It never blocks."""

    setsockopt = settimeout = setblocking


class Poll:
    """Which sockets have something to tell."""

    def __init__(self) -> None:
        assert Process.running is not None
        self._process = Process.running
        self._watched: dict[int, int] = {}
        self._waiter: Future[None] = Future()

    def register(self, which: Any, mask: int) -> None:
        fd = which if isinstance(which, int) else which.fileno()
        self._process.files[fd].poll = self
        self._watched[fd] = mask

    def unregister(self, fd: int) -> None:
        del self._watched[fd]

    def poll(self, _: float = 0.0) -> list[tuple[int, int]]:
        files = self._process.files
        ready = [(fd, files[fd].events() & mask) for fd, mask in self._watched.items()]
        return [(fd, event) for fd, event in ready if event]

    def stir(self) -> None:
        if self.poll():
            self._waiter.resolve(None)

    async def happened(self, patience: float) -> None:
        """What a thread does in `poll`: sleep until something comes, or so long."""
        if self._process.dead:
            raise Died
        if self.poll():
            return
        self._waiter = Future()
        waiter = self._waiter
        own = self._process
        call_off = own.at(own.now() + patience, lambda: waiter.resolve(None))
        try:
            await waiter
        finally:
            call_off()


class Sockets:
    """Stands for the module `socket`."""

    AF_UNIX = socket.AF_UNIX
    SOCK_STREAM = socket.SOCK_STREAM
    IPPROTO_TCP = socket.IPPROTO_TCP
    TCP_NODELAY = socket.TCP_NODELAY
    socket = Socket

    @staticmethod
    def socketpair() -> tuple[Socket, Socket]:
        one, other = Socket(), Socket()
        one.other, other.other = other, one
        return one, other


class OwnSockets:
    """Stands for our module `runtimes.sockets`."""

    open_socket = Socket
    open_pair = Sockets.socketpair


class Select:
    """Stands for the module `select`."""

    poll = Poll
    POLLIN = select.POLLIN
    POLLOUT = select.POLLOUT
    POLLHUP = select.POLLHUP
    POLLERR = select.POLLERR


class Os:
    """Stands for the module `os`: the seed decides."""

    @staticmethod
    def urandom(size: int) -> bytes:
        assert Process.running is not None
        return Process.running.world.random.randbytes(size)


def _nothing(*_: object) -> None:
    """Nobody listens any more."""
