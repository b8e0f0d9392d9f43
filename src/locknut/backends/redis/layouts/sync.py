"""The blocking colour of a foreign layout: a thread that waits listens on its own connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from hiredis import HiredisError, ReplyError

from locknut.backends.redis.layouts.foreign_backend import ForeignBackend
from locknut.backends.redis.layouts.foreign_layout import Layout
from locknut.backends.redis.sync import BlockingServer
from locknut.core.ports import Signal
from locknut.core.values import Notice, Renewal
from locknut.drivers.redis import wire
from locknut.drivers.redis.connections import Connection
from locknut.drivers.redis.endpoints import TimeAndChance
from locknut.drivers.redis.pools import Pool
from locknut.runtimes.deadlines import within
from locknut.runtimes.threads import run

_PAUSE: Final = 0.1
"""After a server that was out of reach; asking again has its own patience."""
_BRIEFLY: Final = 0.2
"""Seconds for which the server may keep a caller that begins to wait: it has answered just now."""
_LOST: Final = (OSError, HiredisError)
"""A connection that is of no use any more; `BackendUnavailable` is one of the first."""


def blocking_foreign_backend(pool: Pool, layout: Layout, clock: TimeAndChance) -> ForeignBackend:
    """A connection per caller, kept for the next one."""
    return ForeignBackend(BlockingServer(pool), ThreadEars(pool, clock), layout, clock)


class ThreadEars:
    """Every thread that waits listens on a connection of its own."""

    waiters: Collection[bytes] = ()

    def __init__(self, pool: Pool, clock: TimeAndChance):
        self._pool = pool
        self._now = clock.now

    def watch(self, channel: bytes, signal: Signal) -> AbstractContextManager[Signal]:
        return Listening(self._pool, channel, signal, self._now)

    async def ready(self, channel: bytes) -> None:
        """It has subscribed when it began to wait."""

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Another thread may find that the server is another: then holds are looked at, at once."""
        self._pool.listen(lambda: on_notice(None, Renewal.HELD))

    def close(self) -> None:
        """The core wakes who waits."""

    def forked(self) -> None:
        """Nothing is kept."""


class Listening:
    """Sleeps until the channel tells that asking again may be worth it, or somebody rings."""

    def __init__(self, pool: Pool, channel: bytes, plain: Signal, now: Callable[[], float]):
        self._now = now
        self._pool = pool
        self._channel = channel
        self._plain = plain
        self._mutex = threading.RLock()
        self._connection: Connection | None = None

    def __enter__(self) -> Signal:
        with suppress(*_LOST):  # else the first wait does it
            run(within(self._subscribe(), self._now() + _BRIEFLY))
        return self

    def __exit__(self, *raised: object) -> None:
        """Nobody waits for the answer: the caller's time may be over, and the server hang."""
        connection = self._connection
        if connection is None:
            return
        try:
            connection.post([wire.pack(b"UNSUBSCRIBE")])
        except _LOST as error:
            self._let_go(error)
        except BaseException as error:
            self._let_go(error)
            raise
        else:
            connection.owes = _unsubscribed
            self._let_go(None)

    def notify(self) -> None:
        self._plain.notify()
        with self._mutex:
            if self._connection is not None:
                self._connection.interrupt()

    async def wait(self, until: float) -> bool:
        if await self._plain.wait(0.0):
            return True
        try:
            if self._connection is None:
                await within(self._subscribe(), until)
                return True  # a message in between was not heard: ask
            connection = self._connection
            if not self._pool.current(connection):
                self._let_go(None)
                await within(self._subscribe(), until)
                return True
            while (left := until - self._now()) > 0:
                if connection.next_within(left) is not wire.NOTHING:
                    return True
        except _LOST as error:
            self._let_go(error)
            await self._plain.wait(min(until, self._now() + _PAUSE))
            return True
        return await self._plain.wait(0.0)

    async def _subscribe(self) -> None:
        connection = self._pool.take()
        with self._mutex:
            self._connection = connection
        try:
            reply = connection.send(wire.pack(b"SUBSCRIBE", self._channel))
        except BaseException as error:
            self._let_go(error)
            raise
        if isinstance(reply, ReplyError):
            self._let_go(None)
            raise self._pool.refused(reply)

    def _let_go(self, error: BaseException | None) -> None:
        """Back to the others, or closed after an error."""
        with self._mutex:
            connection, self._connection = self._connection, None
        if connection is not None and error is None:
            self._pool.give_back(connection)
        elif connection is not None and error is not None:
            with suppress(*_LOST):
                self._pool.drop(connection, error)


def _unsubscribed(reply: Any) -> bool:
    """Whether it is the answer; messages may come before it."""
    return bool(reply[0] == b"unsubscribe")
