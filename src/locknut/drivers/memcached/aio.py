"""The connection of a loop to one memcached: commands of all its tasks, answered in their order."""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Awaitable, Sequence
from time import monotonic
from typing import Any, Final, cast

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
from locknut.errors import BackendUnavailable, LocknutError
from locknut.runtimes import sockets
from locknut.runtimes.clock import now
from locknut.runtimes.inline_future import InlineFuture
from locknut.runtimes.loop_connections import connected
from locknut.runtimes.shared_task import SharedTask

_CHANGE: Final = -1
_AT_ONCE: Final = 65536
"""Bytes that are read at a time, into a buffer that is kept: asyncio's own way makes one of 256 KiB
for every read."""


class _Asked(InlineFuture):
    """Commands that were sent together, to be awaited; and the answers so far."""

    __slots__ = ("count", "due", "refusal", "replies")

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int, due: float):
        super().__init__(loop)
        self.count = count
        """How many replies it takes; 0: up to the end of a list; `_CHANGE`: one, whose CAS id is
        all that is wanted of it."""
        self.due = due
        self.refusal: Reply | None = None
        """The first of the replies that is one."""
        self.replies: list[Reply] | None = None

    def take(self, reply: Reply) -> bool:
        """Whether that was its last one."""
        if self.replies is None:
            self.replies = []
        self.replies.append(reply)
        if self.refusal is None and reply.code in REFUSALS:
            self.refusal = reply
        if self.count > 0:
            return len(self.replies) == self.count
        return self.count == _CHANGE or is_last(reply)


class Stream(asyncio.BufferedProtocol):
    """One connection. An answer that does not come in time ends it: a late one is nobody's."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop):
        self._settings = settings
        self.loop = loop
        self._replies = Replies()
        self._buffer = bytearray(_AT_ONCE)
        self._view = memoryview(self._buffer)
        self._asked: deque[_Asked] = deque()
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.TimerHandle | None = None
        self.closed = False
        self.ended: asyncio.Future[None] = loop.create_future()
        """When the transport is gone: not before that is its socket closed."""
        self.greeted = Greeted(0, 0, 0, 0.0, 0, 0.0)
        self.instance = self.greeted.instance

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sockets.note_transport(transport.get_extra_info("socket"), self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- the same one every time
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        data = self._view[:nbytes].tobytes()
        waiting = self._asked
        asked: _Asked | None = None
        try:
            lone = len(waiting) == 1 and waiting[0].count == _CHANGE
            if lone and (cas := self._replies.only_cas(data)):
                asked = waiting.popleft()  # before its task goes on: that may ask, or abort
                if not asked.done():
                    asked.set_result(cas)
            else:
                self._replies.feed(data)
            while self._asked and (reply := self._replies.next()) is not None:
                asked = self._asked[0]
                if asked.take(reply):
                    del self._asked[0]
                    self._answer(asked, reply)
            if self._asked and not self._asked[0].count:  # a long list takes its time
                self._asked[0].due = monotonic() + self._settings.limit
        except (ValueError, OSError) as error:
            self.abort(error)
        except (SystemExit, KeyboardInterrupt) as error:
            if asked is not None and asked.done():
                # A task that went on with its answer raised it: the others get theirs.
                self.loop.call_soon(self.buffer_updated, 0)
            else:  # Ctrl-C in between: what was read may be lost
                self.abort(error)
            raise

    def _answer(self, asked: _Asked, last: Reply) -> None:
        if asked.refusal is not None:
            # An answer; but what follows it may be out of step, also if its caller has gone.
            self.abort(ConnectionAbortedError("it refused a command"))
        if asked.done():
            return
        if asked.refusal is not None:
            asked.set_exception(failed(self._settings, asked.refusal))
        elif asked.count == _CHANGE:
            asked.set_result(last.cas if last.code == b"HD" else 0)
        else:
            asked.set_result(asked.replies)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        self.abort(exc or ConnectionResetError("the server closed the connection"))

    def abort(self, error: BaseException) -> None:
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()
        asked, self._asked = self._asked, deque()
        for each in asked:
            if not each.done():
                each.set_exception(unreachable(self._settings, error))

    def send(self, packed: bytes, count: int = _CHANGE) -> _Asked:
        """Send commands; the answers are to be awaited."""
        if self.closed or self._transport is None:
            raise unreachable(self._settings, ConnectionResetError("the connection is closed"))
        asked = _Asked(self.loop, count, monotonic() + self._settings.limit)
        try:
            self._transport.write(packed)
            self._asked.append(asked)
            if self._watch is None:
                self._watch = self.loop.call_later(self._settings.limit, self._look)
        except BaseException as error:  # Ctrl-C: the next answer may be to another question
            self.abort(error)
            raise
        return asked

    async def ask(self, packed: bytes, count: int) -> list[Reply]:
        replies: list[Reply] = await self.send(packed, count)
        return replies

    def _look(self) -> None:
        """End the connection if the oldest question is overdue; else look when it will be."""
        self._watch = None
        if not self._asked:
            return
        left = self._asked[0].due - monotonic()
        if left <= 0:
            self.abort(TimeoutError(f"not within {self._settings.limit} s"))
        else:
            self._watch = self.loop.call_later(left, self._look)

    async def greet(self) -> None:
        if who := server_identity.login(self._settings):
            (reply,) = await self.ask(who, 1)
            server_identity.check_login(self._settings, reply)
        (version,) = await self.ask(server_identity.VERSION, 1)
        server_identity.check_version(self._settings, version)
        asked = now()
        lists = [await self.ask(question, 0) for question in server_identity.LISTS]
        self.greeted = server_identity.understand(self._settings, lists, asked, now())
        self.instance = self.greeted.instance


class Link:
    """A stream as long as there is one; opened by its first user for all of them."""

    evicts = True

    def __init__(self, settings: Settings, clocks: ServerClocks):
        self._settings = settings
        self.clocks = clocks
        self._stream: Stream | None = None
        self._connecting: SharedTask[Stream] = SharedTask()
        self._closed = False

    async def ask(
        self, packed: Sequence[bytes], instance: tuple[int, int] | None = None
    ) -> tuple[list[Reply], Greeted]:
        """As that of the blocking colour."""
        stream = await self._connected()
        if instance is not None and stream.instance != instance:
            raise OtherInstance
        return await stream.ask(b"".join(packed), len(packed)), stream.greeted

    def change(self, packed: bytes, instance: tuple[int, int]) -> int | Awaitable[int]:
        """As that of the blocking colour: the way of every acquire and release."""
        stream = self._stream
        if stream is None or stream.closed:
            return self._connect_and_change(packed, instance)
        return stream.send(packed) if stream.instance == instance else 0

    async def _connect_and_change(self, packed: bytes, instance: tuple[int, int]) -> int:
        stream = await self._connected()
        if stream.instance != instance:
            return 0
        cas: int = await stream.send(packed)
        return cas

    async def ask_list(self, packed: bytes) -> list[Reply]:
        """On a connection of its own: it may be long, and nobody else is to wait for its end."""
        if self._closed:
            raise _closed()
        stream = await self._open()
        try:
            return await stream.ask(packed, 0)
        finally:
            stream.abort(_closed())
            await stream.ended

    async def look_at_clock(self) -> None:
        asked, stream = now(), await self._connected()
        told = server_identity.listed(await stream.ask(server_identity.STATS, 0))
        self.clocks.heard(server_identity.instance_of(self._settings, told, asked, now()))

    async def _connected(self) -> Stream:
        stream = self._stream
        if stream is not None and not stream.closed:
            return stream
        if self._closed:
            raise _closed()
        return await self._connecting.done(self._connect)

    async def _connect(self) -> Stream:
        stream = await self._open()
        self.clocks.heard(stream.greeted)
        self.evicts = stream.greeted.evicts
        self._stream = stream
        return stream

    async def _open(self) -> Stream:
        settings, loop = self._settings, asyncio.get_running_loop()

        def make() -> Stream:
            return Stream(settings, loop)

        stream: Stream
        try:
            async with asyncio.timeout(settings.connect_limit):
                if settings.path:
                    _, stream = await loop.create_unix_connection(make, settings.path)
                else:
                    address = settings.host, settings.port
                    stream = await connected(make, address, settings.connect_limit)
        except OSError as error:
            raise unreachable(settings, error) from error
        try:
            await stream.greet()
        except BaseException as error:
            stream.abort(error)
            if isinstance(error, ValueError) and not isinstance(error, LocknutError):
                raise unreachable(settings, error) from error
            raise
        return stream

    async def close(self) -> None:
        self._closed = True
        await self._connecting.ended()  # or what it opens would stay open
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort(_closed())
            await stream.ended

    def forked(self) -> None:
        """The loop and its selector are the parent's too: not even closing is for us."""
        self._stream = None
        self._connecting.forked()

    def dropped(self) -> None:
        """From any thread: nobody will ask any more."""
        stream, self._stream = self._stream, None
        if stream is None or stream.closed or stream.loop.is_closed():
            return
        error: Any = ConnectionAbortedError("nobody has this Locks any more")
        stream.loop.call_soon_threadsafe(stream.abort, error)
        message = "a locknut.aio.Locks was dropped without `await locks.close()`"
        warnings.warn(message, ResourceWarning, stacklevel=2)


def _closed() -> BackendUnavailable:
    return BackendUnavailable("this Locks was closed", backend="memcached")
