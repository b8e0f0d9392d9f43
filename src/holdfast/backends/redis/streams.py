"""The asyncio connection: commands of all tasks in one stream, answers in the same order.

What is sent within one turn of the loop goes out in one write. Pushed messages come in the same
stream (RESP3), so a message is known to be younger than every answer before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from hiredis import HiredisError, PushNotification, ReplyError

from holdfast.backends.redis import wire
from holdfast.backends.redis.settings import Settings
from holdfast.runtimes.clock import now


class Stream(asyncio.Protocol):
    """One connection, shared by all tasks of a loop."""

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        pushed: Callable[[bytes, bytes], None],
        lost: Callable[[], None],
    ):
        self._settings = settings
        self._loop = loop
        self._pushed = pushed
        self._lost = lost
        self._reader = wire.reader()
        self._pending: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._out: list[bytes] = []
        self._watched = False
        self._why: BaseException = ConnectionResetError("the server closed the connection")
        self._transport: asyncio.Transport | None = None
        self.ended = loop.create_future()
        self.anchor = float("-inf")
        """When the command was sent whose answer came last: a message after it is younger (S1)."""

    def send(self, packed: bytes) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        if self._transport is None:  # lost since the caller looked
            future.set_exception(wire.unreachable(self._settings, self._why))
            return future
        self._pending.append((future, now()))
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed)
        if not self._watched:
            self._watched = True
            self._loop.call_later(self._settings.limit, self._watch)
        return future

    def _flush(self) -> None:
        packed = b"".join(self._out)
        self._out.clear()
        if self._transport is not None:
            self._transport.write(packed)

    def _watch(self) -> None:
        """The time limit of every command, kept by one timer."""
        if not self._pending:
            self._watched = False
            return
        left = self._pending[0][1] + self._settings.limit - now()
        if left > 0:
            self._loop.call_later(left, self._watch)
        else:
            self.abort(TimeoutError())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        try:
            reader.feed(data)
            reply = reader.gets()
            while reply is not wire.NOTHING:
                if type(reply) is PushNotification and reply[0] == b"message":
                    self._pushed(reply[1], reply[2])
                else:  # in RESP3 the answer to SUBSCRIBE is a push as well
                    future, self.anchor = self._pending.popleft()
                    if not future.done():
                        future.set_result(reply)
                reply = reader.gets()
        except (HiredisError, IndexError) as error:
            self.abort(error)

    def abort(self, why: BaseException) -> None:
        """After any doubt: every command that waits is unanswered."""
        self._why = why
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        why = exc or self._why
        while self._pending:
            future, _ = self._pending.popleft()
            if not future.done():
                future.set_exception(wire.unreachable(self._settings, why))
        if not self.ended.done():
            self.ended.set_result(None)
        self._lost()

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    async def greet(self, channel: bytes) -> None:
        """Who we are, which database, and where grants are told to us."""
        words = [b"HELLO", b"3"]
        if self._settings.password:
            user = (self._settings.username or "default").encode()
            words += [b"AUTH", user, self._settings.password.encode()]
        said = [self.send(wire.pack(*words))]
        if self._settings.db:
            said.append(self.send(wire.pack(b"SELECT", b"%d" % self._settings.db)))
        said.append(self.send(wire.pack(b"SUBSCRIBE", channel)))
        for reply in await asyncio.gather(*said):
            if isinstance(reply, ReplyError):
                raise wire.failed(reply)
