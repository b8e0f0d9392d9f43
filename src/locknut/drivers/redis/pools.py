"""The idle connections of the blocking colour to one endpoint: kept, checked, left when in doubt.

A connection is dropped after any doubt: an answer that comes late is never another's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final

from hiredis import HiredisError, ReplyError

from locknut.drivers.redis import wire
from locknut.drivers.redis.connections import BlockingDial, Connection
from locknut.drivers.redis.endpoints import (
    LONG_IDLE,
    MACHINE,
    SLOW_TO_OPEN,
    Endpoint,
    TimeAndChance,
    overtaken,
)
from locknut.drivers.redis.owed_answers import OwedAnswers
from locknut.drivers.redis.recovery import Recovery
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.deadlines import current as deadline
from locknut.runtimes.deadlines import hurried, time_left
from locknut.runtimes.threads import run

MOST_IDLE: Final = 64
IDLE_UNCHECKED: Final = 0.01
"""Seconds after which an idle connection is looked at before it is used: a server that restarted
has hung up, and a release that is sent to nobody is a release in doubt."""


class Pool:
    """The idle connections of one backend to one endpoint."""

    def __init__(self, endpoint: Endpoint, clock: TimeAndChance = MACHINE):
        self._endpoint = endpoint
        self._dial = BlockingDial(clock)
        self._latest = endpoint.latest
        self._watched = endpoint.watched
        self._idle: list[Connection] = []
        self._owed = OwedAnswers()
        self.era = object()
        """Another one whenever the server may be another: what one server said, its successor need
        not keep, so a grant that was read in one era is not counted from an answer of another."""
        self._recovery = Recovery()
        self._kept = MOST_IDLE
        """How many may be idle; none once this is closed, though a last release may still come."""
        self._latest.follow(self)

    def longest_slice(self, wanted: float) -> float:
        """A command that is meant to block must be answered well before its time limit."""
        return min(wanted, self.settings.limit / 2)

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    @property
    def settings(self) -> Settings:
        return self._endpoint.settings

    @property
    def idle(self) -> bool:
        """Whether a connection is there, as far as is known."""
        return bool(self._idle)

    def send(self, packed: bytes) -> Any:
        connection = self.take()
        try:
            reply = connection.send(packed)
            if self._watched or connection.epoch != self._latest.epoch:
                self._ensure_current(connection)
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

    def ask_apart(self, packed: Sequence[bytes]) -> list[Any]:
        """The same on a connection that nobody uses afterwards: what is asked may spoil it."""
        connection = self._open()
        try:
            return connection.send_many(packed)
        except (OSError, HiredisError) as error:
            raise wire.unreachable(connection.settings, error) from error
        finally:
            connection.close()

    def era_of(self, packed: bytes) -> object:  # noqa: ARG002 -- a cluster has one for each node
        return self.era

    def refused(self, reply: ReplyError) -> BackendError:
        """The error to raise. A server that is not the master (any more) is left."""
        if wire.elsewhere(reply):
            self.forget()
        return wire.failed(reply)

    def lent(self, packed: bytes = b"") -> Loan:  # noqa: ARG002 -- as `era_of`
        """A connection to the server that this command is for."""
        return Loan(self)

    def _ensure_current(self, connection: Connection, long: float | None = None) -> None:
        """Raise if what was just read is the answer of a server that was succeeded by another."""
        long = LONG_IDLE if long is None else long
        if self._watched and monotonic() - connection.used > long:
            run(self._endpoint.confirm(self._dial))
        if connection.epoch != self._latest.epoch:
            raise overtaken(connection.settings)

    def current(self, connection: Connection) -> bool:
        """Whether it still leads to where a new one would."""
        return connection.era is self.era

    def hung_up(self) -> bool:
        """Whether the server has cut an idle connection: it may not be what it was."""
        cut = [each for each in list(self._idle) if not each.alive()]
        if cut:
            self.forget()
        return bool(cut)

    def listen(self, moved: Callable[[], None]) -> None:
        """Have it called, from any thread, when another server is reached."""
        self._latest.listen(moved)

    def close(self) -> None:
        self._kept = 0
        self._latest.forked()
        self.forget()

    def overtaken(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Whatever comes next is asked on new connections."""
        self.era = object()
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._owed.close()

    def take(self) -> Connection:
        if deadline.until != math.inf:
            self._ensure_time()
        while (connection := self._next()) is not None:
            used, connection.used = connection.used, monotonic()
            if self._watched and connection.used - used > LONG_IDLE:
                run(self._endpoint.confirm(self._dial))
            if connection.era is self.era and (
                connection.used - used < IDLE_UNCHECKED or connection.alive()
            ):
                return connection
            connection.close()
        return self._open()

    def _next(self) -> Connection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return self._owed.settled() if self._owed else None

    def _ensure_time(self) -> None:
        """What there is no time for is not begun, and harms no connection."""
        try:
            time_left(self.settings.limit)
        except TimeoutError as error:
            raise wire.unreachable(self.settings, error) from error

    def _open(self) -> Connection:
        self._recovery.ensure_time(self._dial.clock)
        begun = monotonic()
        try:
            connection = run(self._endpoint.reach(self._dial))
        except BackendUnavailable as error:
            self._recovery.failed(error, self._dial.clock)
            raise
        except (OSError, HiredisError) as error:
            unreachable = wire.unreachable(self._endpoint.settings, error)
            passing = isinstance(unreachable, BackendUnavailable)
            if passing and not (wire.timed_out(error) and hurried()):
                self._recovery.failed(unreachable, self._dial.clock)
            raise unreachable from error
        self._recovery.reached()
        self._latest.reached(connection.peer)
        connection.era, connection.epoch = self.era, self._latest.epoch
        connection.used = begun  # it may have been frozen meanwhile, and deposed
        try:
            self._ensure_current(connection, SLOW_TO_OPEN)
        except BaseException:
            connection.close()
            raise
        return connection

    def settle(self, connection: Connection) -> None:
        """All that was asked has been answered, if it counts."""
        try:
            self._ensure_current(connection)
        except BaseException as error:
            self.drop(connection, error)
            raise
        self.give_back(connection)

    def give_back(self, connection: Connection) -> None:
        if connection.owes is not None and connection.era is self.era:
            kept = len(self._owed) < self._kept
            self._owed.add(connection) if kept else connection.close()
        elif connection.era is self.era and len(self._idle) < self._kept:
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
            self._pool.settle(self._connection)
        else:
            self._pool.drop(self._connection, error)
