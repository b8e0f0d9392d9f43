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
from locknut.drivers.memcached.server_clocks import ServerClocks
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
_SHORT: Final = 256
"""Bytes that are read at a time where the answer is a short line: so much need not be asked of the
system."""


class Connection:
    """One socket. Used by one thread at a time."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._replies = Replies()
        self._socket = _opened(settings)
        self.sendall = self._socket.sendall
        self.recv = self._socket.recv
        self.hurried = False
        """Whether less than the usual limit is kept: the last caller had no more time."""
        self.used = 0.0
        """When it was last put back."""
        try:
            self.greeted = self._greet()
            self.instance = self.greeted.instance
        except BaseException:
            self.close()
            raise

    def _greet(self) -> Greeted:
        if who := server_identity.login(self._settings):
            self._send(who)
            server_identity.check_login(self._settings, self._next())
        (version,) = self.ask([server_identity.VERSION])
        server_identity.check_version(self._settings, version)
        asked = now()
        lists = [self.ask_list(question) for question in server_identity.LISTS]
        return server_identity.understand(self._settings, lists, asked, now())

    def ask(self, packed: Sequence[bytes]) -> list[Reply]:
        """One reply for each command, which are sent together."""
        self._send(b"".join(packed))
        return [self._next() for _ in packed]

    def changed(self, data: bytes) -> int:
        """What an answer to `Pool.change` says that begins with this and is not a plain success."""
        self._heard(data)
        reply = self._next()
        if reply.code in REFUSALS:
            raise failed(self._settings, reply)
        return reply.cas if reply.code == b"HD" else 0

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
        if self.hurried or deadline.until != math.inf:
            self.keep_time()
        self.sendall(packed)

    def keep_time(self) -> None:
        """The caller's time limit, where it is less than the usual one; or that one again."""
        left = time_left(self._settings.limit)
        sockets.set_limit(self._socket, left)
        self.hurried = left < self._settings.limit

    def _next(self) -> Reply:
        while (reply := self._replies.next()) is None:
            self._heard(self.recv(_AT_ONCE))
        return reply

    def _heard(self, data: bytes) -> None:
        if not data:
            raise ConnectionResetError("the server closed the connection")
        self._replies.feed(data)

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

    evicts = True

    def __init__(self, settings: Settings, clocks: ServerClocks):
        self._settings = settings
        self.clocks = clocks
        self._idle: list[Connection] = []
        self._kept = MOST_IDLE

    async def ask(
        self, packed: Sequence[bytes], instance: tuple[int, int] | None = None
    ) -> tuple[list[Reply], Greeted]:
        """The replies, and what their server said of itself. What names CAS ids is for one instance
        of the server: if it is another by now, raise OtherInstance and send nothing.
        """
        connection = self._take()
        if instance is not None and connection.instance != instance:
            self._put_back(connection)
            raise OtherInstance
        with self._in_doubt(connection):
            replies = connection.ask(packed)
        return self._checked(connection, replies), connection.greeted

    def change(self, packed: bytes, instance: tuple[int, int]) -> int:
        """One command that puts a value in the place of the one with a CAS id: the new CAS id. 0 if
        that value is not there any more, or if this is another instance, which is sent nothing.

        The way of every acquire and release, so it is one function without detours.
        """
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._new()
        else:
            if monotonic() - connection.used > IDLE_UNCHECKED and not connection.alive():
                connection.close()
                connection = self._take()
        if connection.instance != instance:
            self._put_back(connection)
            return 0
        try:
            if connection.hurried or deadline.until != math.inf:
                connection.keep_time()
            connection.sendall(packed)
            data = connection.recv(_SHORT)
            # With another answer behind it this is no number, and the connection is left.
            plain = data[:4] == b"HD c" and data[-1:] == b"\n"
            cas = int(data[4:-2]) if plain else connection.changed(data)
        except BaseException as error:
            connection.close()
            if isinstance(error, OSError | ValueError):
                raise self._unreachable(error) from error
            raise
        if len(self._idle) < self._kept:
            connection.used = monotonic()
            self._idle.append(connection)
        else:
            connection.close()
        return cas

    async def ask_list(self, packed: bytes) -> list[Reply]:
        connection = self._take()
        with self._in_doubt(connection):
            replies = connection.ask_list(packed)
        return self._checked(connection, replies)

    async def look_at_clock(self) -> None:
        asked = now()
        told = server_identity.listed(await self.ask_list(server_identity.STATS))
        self.clocks.heard(server_identity.instance_of(self._settings, told, asked, now()))

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._new()
            if monotonic() - connection.used < IDLE_UNCHECKED or connection.alive():
                return connection
            connection.close()

    def _new(self) -> Connection:
        try:
            made = Connection(self._settings)
        except (OSError, ValueError) as error:
            raise self._unreachable(error) from error
        self.clocks.heard(made.greeted)
        self.evicts = made.greeted.evicts
        return made

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
        if isinstance(error, BlockingIOError):  # how the kernel tells that the time is over
            error = TimeoutError("not in time")
        return error if isinstance(error, LocknutError) else unreachable(self._settings, error)

    async def close(self) -> None:
        self._kept = 0
        self.forked()

    def forked(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    dropped = forked
