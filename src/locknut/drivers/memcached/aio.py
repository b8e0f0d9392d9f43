"""The connection of a loop to one memcached: commands of all its tasks, answered in their order."""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any, cast

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
from locknut.errors import BackendUnavailable
from locknut.runtimes import sockets
from locknut.runtimes.clock import now


class _Asked:
    """Commands that were sent together, and the answers so far."""

    __slots__ = ("answered", "count", "due", "replies")

    def __init__(self, count: int, due: float, answered: asyncio.Future[list[Reply]]):
        self.count = count
        """How many replies it takes; 0: up to the end of a list."""
        self.due = due
        self.answered = answered
        self.replies: list[Reply] = []

    def take(self, reply: Reply) -> bool:
        """Whether that was its last one."""
        self.replies.append(reply)
        done = is_last(reply) if self.count == 0 else len(self.replies) == self.count
        if done and not self.answered.done():
            self.answered.set_result(self.replies)
        return done


class Stream(asyncio.Protocol):
    """One connection. An answer that does not come in time ends it: a late one is nobody's."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop):
        self._settings = settings
        self.loop = loop
        self._replies = Replies()
        self._asked: deque[_Asked] = deque()
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.TimerHandle | None = None
        self.closed = False
        self.ended: asyncio.Future[None] = loop.create_future()
        """When the transport is gone: not before that is its socket closed."""
        self.greeted = Greeted(0, 0, 0, 0.0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sockets.note_transport(transport.get_extra_info("socket"), self)

    def data_received(self, data: bytes) -> None:
        self._replies.feed(data)
        try:
            while self._asked and (reply := self._replies.next()) is not None:
                if self._asked[0].take(reply):
                    self._asked.popleft()
        except (ValueError, OSError) as error:
            self.abort(error)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        self.abort(error or ConnectionResetError("the server closed the connection"))

    def abort(self, error: BaseException) -> None:
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._transport is not None:
            self._transport.abort()
        asked, self._asked = self._asked, deque()
        for each in asked:
            if not each.answered.done():
                each.answered.set_exception(unreachable(self._settings, error))
                each.answered.exception()  # a caller that has left does not look

    async def ask(self, packed: bytes, count: int) -> list[Reply]:
        if self.closed or self._transport is None:
            raise unreachable(self._settings, ConnectionResetError("the connection is closed"))
        answered: asyncio.Future[list[Reply]] = self.loop.create_future()
        due = self.loop.time() + self._settings.limit
        self._asked.append(_Asked(count, due, answered))
        self._transport.write(packed)
        if self._watch is None:
            self._watch = self.loop.call_at(due, self._look)
        return await answered

    def _look(self) -> None:
        """End the connection if the oldest question is overdue; else look when it will be."""
        self._watch = None
        if not self._asked:
            return
        due = self._asked[0].due
        if due <= self.loop.time():
            self.abort(TimeoutError(f"not within {self._settings.limit} s"))
        else:
            self._watch = self.loop.call_at(due, self._look)

    async def greet(self) -> None:
        if who := server_identity.login(self._settings):
            (reply,) = await self.ask(who, 1)
            server_identity.check_login(self._settings, reply)
        (version,) = await self.ask(server_identity.VERSION, 1)
        server_identity.check_version(self._settings, version)
        lists = [await self.ask(question, 0) for question in server_identity.LISTS]
        self.greeted = server_identity.understand(self._settings, lists, now())


class Link:
    """A stream as long as there is one; opened by its first user for all of them."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._stream: Stream | None = None
        self._connecting: asyncio.Task[Stream] | None = None
        self._closed = False

    async def ask(
        self, packed: Sequence[bytes], instance: tuple[int, int] | None = None
    ) -> tuple[list[Reply], Greeted]:
        """As that of the blocking colour."""
        stream = await self._connected()
        if instance is not None and stream.greeted.instance != instance:
            raise OtherInstance
        replies = await stream.ask(b"".join(packed), len(packed))
        return self._checked(stream, replies), stream.greeted

    async def ask_one(self, packed: bytes, instance: tuple[int, int]) -> Reply:
        """The same for one command: the way of every acquire and release."""
        stream = self._stream
        if stream is None or stream.closed:
            stream = await self._connected()
        if stream.greeted.instance != instance:
            raise OtherInstance
        (reply,) = self._checked(stream, await stream.ask(packed, 1))
        return reply

    async def ask_list(self, packed: bytes) -> list[Reply]:
        stream = await self._connected()
        return self._checked(stream, await stream.ask(packed, 0))

    def _checked(self, stream: Stream, replies: list[Reply]) -> list[Reply]:
        """A refusal is an answer, but what follows it may be out of step: that one is left."""
        for reply in replies:
            if reply.code in REFUSALS:
                stream.abort(ConnectionAbortedError("it refused a command"))
                raise failed(self._settings, reply)
        return replies

    async def _connected(self) -> Stream:
        stream = self._stream
        if stream is not None and not stream.closed:
            return stream
        if self._closed:
            raise _closed()
        if self._connecting is None:
            # A task of its own: a caller that gives up takes the connection from nobody.
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            self._connecting.add_done_callback(self._ended)
        return await asyncio.shield(self._connecting)

    def _ended(self, task: asyncio.Task[Stream]) -> None:
        self._connecting = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; it is nobody's if nobody did

    async def _connect(self) -> Stream:
        settings, loop = self._settings, asyncio.get_running_loop()

        def make() -> Stream:
            return Stream(settings, loop)

        stream: Stream
        try:
            async with asyncio.timeout(settings.connect_limit):
                if settings.path:
                    _, stream = await loop.create_unix_connection(make, settings.path)
                else:
                    _, stream = await loop.create_connection(make, settings.host, settings.port)
        except OSError as error:
            raise unreachable(settings, error) from error
        try:
            await stream.greet()
        except BaseException as error:
            stream.abort(error)
            raise
        self._stream = stream
        return stream

    async def close(self) -> None:
        self._closed = True
        if self._connecting is not None:  # or what it opens would stay open
            await asyncio.wait([self._connecting])
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort(_closed())
            await stream.ended

    def forked(self) -> None:
        """The loop and its selector are the parent's too: not even closing is for us."""
        self._stream = None
        self._connecting = None

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
