"""The blocking connections to one memcached: kept while idle, left when in doubt."""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final

from locknut.drivers.memcached import server_identity
from locknut.drivers.memcached.replies import (
    REFUSALS,
    Replies,
    Reply,
    failed,
    is_last,
    unreachable,
)
from locknut.drivers.memcached.server_identity import Greeted, OtherInstance
from locknut.drivers.memcached.settings import Settings
from locknut.errors import LocknutError
from locknut.runtimes import sockets
from locknut.runtimes.clock import now
from locknut.runtimes.deadlines import current as deadline
from locknut.runtimes.deadlines import time_left

MOST_IDLE: Final = 64
IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle connection is looked at before it is used: a server that restarted
has hung up, and a release that is sent to nobody is a release in doubt."""
_AT_ONCE: Final = 16384


class Connection:
    """One socket. Used by one thread at a time."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._replies = Replies()
        self._socket = _opened(settings)
        self._sendall = self._socket.sendall
        self._hurried = False
        """Whether less than the usual limit is kept: the last caller had no more time."""
        self.used = 0.0
        """When it was last put back."""
        try:
            self.greeted = self._greet()
        except BaseException:
            self.close()
            raise

    def _greet(self) -> Greeted:
        if who := server_identity.login(self._settings):
            self._send(who)
            server_identity.check_login(self._settings, self._next())
        (version,) = self.ask([server_identity.VERSION])
        server_identity.check_version(self._settings, version)
        lists = [self.ask_list(question) for question in server_identity.LISTS]
        return server_identity.understand(self._settings, lists, now())

    def ask(self, packed: Sequence[bytes]) -> list[Reply]:
        """One reply for each command, which are sent together."""
        self._send(b"".join(packed))
        return [self._next() for _ in packed]

    def ask_one(self, packed: bytes) -> Reply:
        """The reply to one command."""
        if self._hurried or deadline.until != math.inf:
            self._keep_time()
        self._sendall(packed)
        return self._replies.only(self._recv()) or self._next()

    def ask_list(self, packed: bytes) -> list[Reply]:
        """All the lines of one answer, up to its END."""
        self._send(packed)
        return self._list()

    def _list(self) -> list[Reply]:
        found = [self._next()]
        while not is_last(found[-1]):
            found.append(self._next())
        return found

    def _send(self, packed: bytes) -> None:
        if self._hurried or deadline.until != math.inf:
            self._keep_time()
        self._socket.sendall(packed)

    def _keep_time(self) -> None:
        """The caller's time limit, where it is less than the usual one; or that one again."""
        left = time_left(self._settings.limit)
        sockets.set_limit(self._socket, left)
        self._hurried = left < self._settings.limit

    def _next(self) -> Reply:
        while (reply := self._replies.next()) is None:
            self._replies.feed(self._recv())
        return reply

    def _recv(self) -> bytes:
        try:
            data = self._socket.recv(_AT_ONCE)
        except BlockingIOError as error:  # how the kernel tells that the time is over
            raise TimeoutError("not in time") from error
        if not data:
            raise ConnectionResetError("the server closed the connection")
        return data

    def alive(self) -> bool:
        """Whether the server has not hung up, as far as the kernel knows; it owes us nothing."""
        if self._socket.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        self._socket.close()


def _opened(settings: Settings) -> socket.socket:
    limit = time_left(settings.connect_limit)
    if settings.path:
        made = sockets.open_socket(socket.AF_UNIX)
        try:
            made.settimeout(limit)
            made.connect(settings.path)
        except BaseException:
            made.close()
            raise
    else:
        made = sockets.connected((settings.host, settings.port), limit)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.settimeout(None)
    sockets.set_limit(made, settings.limit)
    return made


class Pool:
    """The connections of one backend: one for each thread that asks at the same time."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._idle: list[Connection] = []
        self._kept = MOST_IDLE

    async def ask(
        self, packed: Sequence[bytes], instance: tuple[int, int] | None = None
    ) -> tuple[list[Reply], Greeted]:
        """The replies, and what their server said of itself. What names CAS ids is for one instance
        of the server: if it is another by now, raise OtherInstance and send nothing.
        """
        connection = self._take()
        if instance is not None and connection.greeted.instance != instance:
            self._put_back(connection)
            raise OtherInstance
        with self._in_doubt(connection):
            replies = connection.ask(packed)
        return self._checked(connection, replies), connection.greeted

    async def ask_one(self, packed: bytes, instance: tuple[int, int]) -> Reply:
        """The same for one command: the way of every acquire and release."""
        connection = self._take()
        if connection.greeted.instance != instance:
            self._put_back(connection)
            raise OtherInstance
        try:
            reply = connection.ask_one(packed)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError | ValueError):
                raise self._unreachable(error) from error
            raise
        if reply.code in REFUSALS:
            connection.close()
            raise failed(self._settings, reply)
        self._put_back(connection)
        return reply

    async def ask_list(self, packed: bytes) -> list[Reply]:
        connection = self._take()
        with self._in_doubt(connection):
            replies = connection.ask_list(packed)
        return self._checked(connection, replies)

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            if monotonic() - connection.used < IDLE_UNCHECKED or connection.alive():
                return connection
            connection.close()
        try:
            return Connection(self._settings)
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error

    def _put_back(self, connection: Connection) -> None:
        if len(self._idle) < self._kept:
            connection.used = monotonic()
            self._idle.append(connection)
        else:
            connection.close()

    def _checked(self, connection: Connection, replies: list[Reply]) -> list[Reply]:
        """A refusal is an answer, but what follows it may be out of step: that one is left."""
        refused = next((reply for reply in replies if reply.refusal), None)
        if refused is not None:
            connection.close()
            raise failed(self._settings, refused)
        self._put_back(connection)
        return replies

    @contextmanager
    def _in_doubt(self, connection: Connection) -> Iterator[None]:
        """Whatever happens in here, an answer that comes late must not be taken for another's."""
        try:
            yield
        except (OSError, ValueError) as error:
            connection.close()
            raise self._unreachable(error) from error
        except BaseException:
            connection.close()
            raise

    def _unreachable(self, error: Exception) -> LocknutError:
        """Our own errors are OSErrors and ValueErrors too."""
        return error if isinstance(error, LocknutError) else unreachable(self._settings, error)

    async def close(self) -> None:
        self._kept = 0
        self.forked()

    def forked(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    dropped = forked
