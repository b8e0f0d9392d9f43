"""Blocking connections to one server: a socket, hiredis' reader, and a pile of idle ones.

Measured, this is what costs least: redis-py's own path (pack, pool, parse) takes as long again as
the server. A connection is dropped after any doubt: an answer that comes late is never another's.
"""

from __future__ import annotations

import contextlib
import math
import select
import socket
import ssl
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final, NoReturn

from hiredis import HiredisError, ReplyError

from locknut.backends.redis import wire
from locknut.backends.redis.dialing import open_socket, set_limit
from locknut.backends.redis.places import Place
from locknut.backends.redis.recovering import Recovery
from locknut.backends.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.deadlines import current as deadline
from locknut.runtimes.deadlines import hurried, time_left
from locknut.runtimes.threads import run

MOST_IDLE: Final = 64
IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle connection is looked at before it is used: a server that restarted
has hung up, and a release that is sent to nobody is a release in doubt."""
_AT_ONCE: Final = 65536


class Connection:
    """One socket. Used by one thread at a time."""

    __slots__ = (
        "_feed",
        "_gets",
        "_recv",
        "_sendall",
        "_socket",
        "era",
        "hurried",
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
        self.hurried = False
        """Whether less than the usual limit is kept: the last caller had no more time."""
        self._socket = sock = open_socket(settings)
        reader = wire.reader()
        self._gets, self._feed = reader.gets, reader.feed
        self._recv, self._sendall = sock.recv, sock.sendall
        try:
            self.peer = sock.getpeername()
            greeting = wire.greeting(settings, b"2", curious=curious)
            self.welcome = wire.welcome(self.send_many(greeting), curious=curious)
        except BaseException:
            self.close()
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
        """The answer, or NOTHING if there is none within so long."""
        if seconds == math.inf:
            return self.send(packed)
        self._sendall(packed)
        return self.next_within(seconds)

    def next_within(self, seconds: float) -> Any:
        """What the server says next on its own, or NOTHING if it is silent for so long."""
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


class Blocking:
    """How the blocking colour opens a connection and asks something on it."""

    async def open(self, settings: Settings, *, curious: bool = False) -> Connection:
        return Connection(settings.signed(), curious=curious)

    async def ask(self, peer: Connection, packed: bytes) -> Any:
        return peer.send(packed)


DIAL: Final = Blocking()


class Pool:
    """The idle connections of one backend to one place."""

    def __init__(self, place: Place):
        self._place = place
        self._idle: list[Connection] = []
        self.era = object()
        """Another one whenever the server may be another: what one server said, its successor need
        not keep, so a grant that was read in one era is not counted from an answer of another."""
        self._peer: Any = None
        self._recovery = Recovery()
        self._kept = MOST_IDLE
        """How many may be idle; none once this is closed, though a last release may still come."""

    def longest_slice(self, wanted: float) -> float:
        """A command that is meant to block must be answered well before its time limit."""
        return min(wanted, self.settings.limit / 2)

    @property
    def settings(self) -> Settings:
        return self._place.settings

    @property
    def idle(self) -> bool:
        """Whether a connection is there, as far as is known."""
        return bool(self._idle)

    def send(self, packed: bytes) -> Any:
        connection = self.take()
        try:
            reply = connection.send(packed)
        except BaseException as error:
            self.drop(connection, error)
            raise
        if connection.era is self.era and len(self._idle) < self._kept:
            self._idle.append(connection)
        else:
            connection.close()
        return reply

    def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        with self.lent() as connection:
            return connection.send_many(packed)

    def era_of(self, packed: bytes) -> object:  # noqa: ARG002 -- a cluster has one for each node
        return self.era

    def refused(self, reply: ReplyError) -> BackendError:
        """The error to raise. Who is not the master (any more) is left; it will be looked for."""
        if wire.elsewhere(reply):
            self.forget()
        return wire.failed(reply)

    def lent(self, packed: bytes = b"") -> Loan:  # noqa: ARG002 -- as `era_of`
        """A connection to the server that this command is for."""
        return Loan(self)

    def close(self) -> None:
        self._kept = 0
        self.forget()

    def forget(self) -> None:
        """Whatever comes next is asked on new connections."""
        self.era = object()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def take(self) -> Connection:
        if deadline.until != math.inf:
            self._ensure_time()
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:
                break  # another thread was faster
            used, connection.used = connection.used, monotonic()
            if connection.era is self.era and (
                connection.used - used < IDLE_UNCHECKED or connection.alive()
            ):
                return connection
            connection.close()
        return self._open()

    def _ensure_time(self) -> None:
        """What there is no time for is not begun, and harms no connection."""
        try:
            time_left(self.settings.limit)
        except TimeoutError as error:
            raise wire.unreachable(self.settings, error) from error

    def _open(self) -> Connection:
        self._recovery.ensure_time()
        try:
            connection = run(self._place.reach(DIAL))
        except BackendUnavailable as error:
            self._recovery.failed(error)
            raise
        except (OSError, HiredisError) as error:
            unreachable = wire.unreachable(self._place.settings, error)
            if not (wire.timed_out(error) and hurried()):
                self._recovery.failed(unreachable)
            raise unreachable from error
        self._recovery.reached()
        if connection.peer != self._peer:
            self._peer = connection.peer
            self.forget()
        connection.era = self.era
        return connection

    def give_back(self, connection: Connection) -> None:
        if connection.era is self.era and len(self._idle) < self._kept:
            connection.used = monotonic()
            self._idle.append(connection)
        else:
            connection.close()

    def drop(self, connection: Connection, error: BaseException) -> None:
        """What failed is closed, and so are the idle ones: after a restart they are all dead."""
        connection.close()
        if isinstance(error, OSError | HiredisError):
            if isinstance(error, BackendError):
                raise error
            if not (connection.hurried and wire.timed_out(error)):
                self.forget()  # a caller in a hurry knows nothing of the others
            raise wire.unreachable(connection.settings, error) from error


class Loan:
    """A connection for as long as the context lasts."""

    __slots__ = ("_connection", "_pool")

    def __init__(self, pool: Pool):
        self._pool = pool

    def __enter__(self) -> Connection:
        self._connection = connection = self._pool.take()
        return connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None:
            self._pool.give_back(self._connection)
        else:
            self._pool.drop(self._connection, error)
