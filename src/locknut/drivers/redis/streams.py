"""The asyncio connection: commands of all tasks in one stream, answers in the same order.

A command goes out at once where nobody else waits for an answer, and else in one write with those
of the same turn of the loop. A task that awaits an answer goes on in the step that reads it.
Messages are pushed in the same stream (RESP3), so each is known to be younger than every answer
before it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, cast

from hiredis import HiredisError, PushNotification, ReplyError

from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import MACHINE
from locknut.drivers.redis.recovery import keep_alive
from locknut.drivers.redis.settings import Settings
from locknut.runtimes import sockets
from locknut.runtimes.inline_future import InlineFuture

UNASKED: Final = frozenset({b"message", b"smessage", b"unsubscribe", b"sunsubscribe"})
"""Pushes that are nobody's answer. A slot that leaves its node ends the subscriptions in it."""


_AT_ONCE: Final = 65536
"""Bytes that are read at a time, into a buffer that is kept: asyncio's own way makes one of 256 KiB
for every read, which costs more than all the rest of it."""
_HANGING: Final = 0.05
"""Seconds without an answer after which a server may hang."""
MANY: Final = 100
"""Unanswered commands from which on some of them wait for others, and not for the server."""
MOST_UNSENT: Final = 16 * 1024 * 1024
"""Bytes that may wait for a server that does not read: more will not be answered in time."""


class Answer(Protocol):
    """What takes the answer to a command, in the step that reads it."""

    def done(self) -> bool:
        """Whether nobody wants to know any more."""

    def set_result(self, result: Any) -> None:
        """The answer."""

    def set_exception(self, error: BaseException) -> None:
        """There will be none."""


class Stream(asyncio.BufferedProtocol):
    """One connection, shared by all tasks of a loop."""

    _new_reply: Callable[[Any], InlineFuture] = InlineFuture

    def __init__(
        self,
        settings: Settings,
        loop: asyncio.AbstractEventLoop,
        pushed: Callable[[Stream, list[Any]], None],
        lost: Callable[[Stream], None],
        now: Callable[[], float] = MACHINE.now,
    ):
        self._settings = settings
        self._loop = loop
        self._pushed = pushed
        self._lost = lost
        self._now = now
        self._reader = wire.reader()
        self._buffer = bytearray(_AT_ONCE)
        # TLS fills it piece by piece: a slice must be no copy.
        self._view = memoryview(self._buffer)
        self._pending: deque[tuple[Answer, float]] = deque()
        self._out: list[bytes] = []
        self._leaving: set[Answer] = set()
        """Answers behind which a subscription has ended: see `leave`."""
        self._watched = False
        self._why: BaseException = ConnectionResetError("the server closed the connection")
        self._transport: asyncio.Transport | None = None
        self.closed = True
        """Whether it is known to be of no use (any more)."""
        self.welcome = wire.Welcome()
        self.peer: Any = None
        self.listening: dict[bytes, None] = {}
        """The channels of single locks, on a cluster; oldest first."""
        self.ended = loop.create_future()
        self._heard = float("-inf")
        """When an answer came last."""
        self.anchor = float("-inf")
        """When the command was sent whose answer came last: a message after it is younger (S1)."""

    def send(self, packed: bytes) -> InlineFuture:
        """The answer is awaited by a task."""
        answer = self._new_reply(self._loop)
        self.ask(packed, answer)
        return answer

    async def send_many(self, packed: Iterable[bytes]) -> list[Any]:
        """Several commands in one round trip."""
        # One by one: these are not asyncio's futures, and a cancelled `gather` would never end.
        return [await answer for answer in [self.send(each) for each in packed]]

    def ask(self, packed: bytes, answer: Answer, few: int = 0) -> None:
        """Send a command; `answer` gets what comes back. With no more than a few commands still
        unanswered it does not wait for others to go with it; nor if the server was silent for a
        while.
        """
        sent = self._now()  # before it is: from here on it may count
        if self._transport is None:  # lost since the caller looked
            answer.set_exception(wire.unreachable(self._settings, self._why))
            return
        waiting = len(self._pending)
        at_once = waiting <= few or (few and sent - self._pending[0][1] > _HANGING)
        try:
            if at_once and not self._out:  # what was said before goes out before
                self._transport.write(packed)
            else:
                if not self._out:
                    self._loop.call_soon(self._flush)
                self._out.append(packed)
            self._pending.append((answer, sent))
            if not self._watched:
                self._watched = True
                self._loop.call_later(self._settings.limit, self._watch)
        except BaseException as error:  # Ctrl-C: the next answer may be to another question
            self.abort(error)
            raise

    def leave(self, verb: bytes, channel: bytes) -> None:
        """End a subscription. What comes of it is pushed, and is nobody's answer; but a refusal (by
        an ACL, or because the slot has just moved) comes as one. So HELLO is sent behind it, which
        is always answered: an error before that answer is this refusal, and not another's.
        """
        if self._transport is not None:
            self._leaving.add(self.send(wire.pack(verb, channel) + wire.pack(b"HELLO")))

    def _flush(self) -> None:
        transport = self._transport
        try:
            packed = b"".join(self._out)
            self._out.clear()
            if transport is not None:
                transport.write(packed)
                if transport.get_write_buffer_size() > MOST_UNSENT:
                    self.abort(BufferError("the server does not read what is sent"))
        except BaseException as error:  # Ctrl-C: it may not have been sent
            self.abort(error)
            raise

    def _watch(self) -> None:
        """The time limit of every command, kept by one timer."""
        if not self._pending:
            self._watched = False
            return
        # As long as answers come, the server is there: the others are behind thousands of commands.
        since = max(self._pending[0][1], self._heard)
        left = since + self._settings.limit - self._now()
        if left > 0:
            self._loop.call_later(left, self._watch)
        else:
            self.abort(TimeoutError())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.closed = False
        self.peer = transport.get_extra_info("peername")
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
            sockets.note_transport(sock, self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- the same one every time
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        reader = self._reader
        answer: Answer | None = None
        try:
            reader.feed(self._buffer, 0, nbytes)  # type: ignore[arg-type]  # any buffer will do
            reply = reader.gets()
            if len(self._pending) > MANY:
                self._heard = self._now()
            while reply is not wire.NOTHING:
                if type(reply) is PushNotification and reply[0] in UNASKED:
                    self._pushed(self, reply)
                elif not self._leaving or not self._refused_to_leave(reply):
                    # In RESP3 the answer to SUBSCRIBE is a push as well.
                    answer, self.anchor = self._pending[0]
                    self._pending.popleft()
                    if not answer.done():
                        answer.set_result(reply)
                    answer = None
                reply = reader.gets()
        except (HiredisError, IndexError) as error:
            self.abort(error)
        except (SystemExit, KeyboardInterrupt) as why:
            if answer is not None and answer.done():
                # A task that went on with its answer raised it: the others get theirs.
                self._loop.call_soon(self.buffer_updated, 0)
            else:  # Ctrl-C in between: what was read may be lost
                self.abort(why)
                if answer is not None:
                    answer.set_exception(wire.unreachable(self._settings, why))
            raise

    def _refused_to_leave(self, reply: Any) -> bool:
        first = self._pending[0][0]
        if first in self._leaving and isinstance(reply, ReplyError):
            return True
        self._leaving.discard(first)
        return False

    def abort(self, why: BaseException) -> None:
        """After any doubt: every command that waits is unanswered."""
        self._why = why
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    def soon(self, call: Callable[[], None]) -> bool:
        """Have it called on the loop, from any thread; False where that is closed: no need."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            return False
        return True

    def eof_received(self) -> None:
        self.closed = True  # it is lost in a moment: nothing more is sent on it

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.closed = True
        why = exc or self._why
        while self._pending:
            answer, _ = self._pending.popleft()
            if not answer.done():
                unanswered = wire.unreachable(self._settings, why)
                unanswered.__cause__ = why
                answer.set_exception(unanswered)
        if not self.ended.done():
            self.ended.set_result(None)
        self._lost(self)

    @property
    def waiting(self) -> int:
        """How many commands have not been answered yet."""
        return len(self._pending)

    def close(self) -> None:
        """Nobody needs it any more."""
        self.abort(ConnectionAbortedError("not needed any more"))

    def retire(self) -> None:
        """Close once the last answer has come: the commands of others are not to be doubted."""
        if self._pending:
            self.send(wire.pack(b"HELLO")).add_done_callback(lambda _: self.close())
        else:
            self.close()

    async def greet(self, *, curious: bool = False) -> None:
        """Send our user and the database; the server says what it is."""
        said = await self.send_many(wire.greeting(self._settings, b"3", curious=curious))
        self.welcome = wire.welcome(said, curious=curious)

    async def subscribe(self, *channels: bytes) -> None:
        """The channels on which we hear of grants, and of broken holds."""
        for channel in channels:
            reply = await self.send(wire.pack(b"SUBSCRIBE", channel))
            if isinstance(reply, ReplyError):
                self.close()
                raise wire.failed(reply)
