"""The link of a loop to a cluster: the calls of all its tasks, side by side on one connection."""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from functools import partial
from typing import Final, cast

from locknut.drivers.etcd import grpc_errors
from locknut.drivers.etcd.calls import Answer
from locknut.drivers.etcd.http2 import POLITE, Http2
from locknut.drivers.etcd.link import BaseLink
from locknut.drivers.etcd.members import Members, Turn
from locknut.drivers.etcd.settings import Settings
from locknut.runtimes import sockets
from locknut.runtimes.clock import now
from locknut.runtimes.inline_future import InlineFuture
from locknut.runtimes.loop_connections import connected
from locknut.runtimes.shared_task import SharedTask

_AT_ONCE: Final = 65536
"""Bytes that are read at a time, into a buffer that is kept: asyncio's own way makes one of 256 KiB
for every read."""


class _Awaited(Answer):
    """An answer that a task waits for, until it is due."""

    def __init__(self, connection: Connection, due: float):
        super().__init__()
        self.answered = InlineFuture(connection.loop)
        self.due = due
        self._connection = connection

    def end(self, status: int, text: str) -> None:
        super().end(status, text)
        self._connection.has_answer(self)

    def fail(self, error: BaseException) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)


class Connection(asyncio.BufferedProtocol):
    """One connection. A member that owes an answer for too long gets no more questions: what is on
    its way has its time, then the connection is closed.
    """

    def __init__(self, settings: Settings, turn: Turn, loop: asyncio.AbstractEventLoop):
        self.turn = turn
        self.loop = loop
        self._settings = settings
        self._http2 = Http2()
        self._view = memoryview(bytearray(_AT_ONCE))
        self._asked: dict[_Awaited, None] = {}
        """Calls without an answer, in their order."""
        self._answered: deque[_Awaited] = deque()
        """Calls whose task does not know yet that they are answered."""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._thanks: asyncio.TimerHandle | None = None
        self.closed = False
        self.leaving = False
        self.ended: asyncio.Future[None] = loop.create_future()
        """When the transport is gone: not before that is its socket closed."""

    @property
    def greeted(self) -> bool:
        return self._http2.greeted

    @property
    def usable(self) -> bool:
        return not (self.closed or self.leaving or self._http2.leaving)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        sockets.note_transport(transport.get_extra_info("socket"), self)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 -- the same one every time
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._http2.feed(self._view[:nbytes].tobytes())
        except (ValueError, OSError) as error:
            self._wake()
            self.abort(error)
            return
        except BaseException as error:  # Ctrl-C: what was read may be lost
            self.abort(error)
            self.loop.call_soon(self._wake)
            raise
        self._wake()
        if self.closed:  # by a task that went on
            return
        if self._http2.presses:
            self._acknowledge()
        elif self._http2.has_output and self._thanks is None:
            self._thanks = self.loop.call_later(POLITE, self._acknowledge)
        self._close_when_done()

    def has_answer(self, answer: _Awaited) -> None:
        """In the middle of what is being read: its task goes on after that."""
        self._asked.pop(answer, None)
        self._answered.append(answer)

    def _wake(self) -> None:
        """The tasks that were answered go on, right here."""
        while self._answered:
            answer = self._answered.popleft()
            if answer.answered.done():
                continue
            try:
                answer.answered.set_result(None)
            except BaseException:  # raised by the task: the others are to have their answers, too
                self.loop.call_soon(self._wake)
                raise

    def _acknowledge(self) -> None:
        if self._thanks is not None:
            self._thanks.cancel()
            self._thanks = None
        if self._transport is not None and self._http2.has_output:
            self._transport.write(self._http2.take_output())

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
        self.abort(error or ConnectionResetError("the server closed the connection"))

    def abort(self, error: BaseException) -> None:
        self.closed = True
        for timer in (self._timer, self._thanks):
            if timer is not None:
                timer.cancel()
        self._timer = self._thanks = None
        if self._transport is not None:
            self._transport.abort()
        asked, self._asked = self._asked, {}
        for each in asked:
            each.fail(error)

    async def call(self, head: bytes, message: bytes) -> tuple[Answer, float]:
        if self.closed or self._transport is None:
            raise ConnectionResetError("the connection is closed")
        sent, due = now(), self.loop.time() + self._settings.limit
        answer = _Awaited(self, due)
        try:
            self._asked[answer] = None
            self._http2.open(answer, head, message)
            self._transport.write(self._http2.take_output(thanks=False))
            if self._timer is None:
                self._timer = self.loop.call_at(due, self._look)
        except BaseException as error:  # Ctrl-C: half of it may have been sent
            self.abort(error)
            raise
        await answer.answered
        return answer, sent

    def _look(self) -> None:
        """Give up what is overdue; look again when the next one will be."""
        self._timer = None
        for answer in list(self._asked):
            if answer.due > self.loop.time():
                self._timer = self.loop.call_at(answer.due, self._look)
                break
            del self._asked[answer]
            self.leaving = True
            self._http2.cancel(answer)
            answer.fail(TimeoutError())
        self._acknowledge()
        self._close_when_done()

    def leave(self) -> None:
        """Nobody asks here any more; who has asked is answered."""
        self.leaving = True
        self._close_when_done()

    def _close_when_done(self) -> None:
        done = not self._http2.streams and not self._http2.waiting
        if (self.leaving or self._http2.leaving) and done and not self.closed:
            self.abort(ConnectionAbortedError("the connection was left"))


class LoopLink(BaseLink[Connection]):
    """For tasks of one loop."""

    def __init__(self, settings: Settings, members: Members):
        super().__init__(settings, members)
        self._connection: Connection | None = None
        self._connecting: SharedTask[Connection] = SharedTask()
        self._logging_in: SharedTask[None] = SharedTask()
        self._open: set[Connection] = set()
        """Also those that were left, and owe an answer."""
        self._closed = False

    async def connected(self) -> Connection:
        """The connection to the member that is asked now; opened by its first user for all."""
        connection = self._connection
        if connection is not None:
            if connection.usable and connection.turn == self.members.turn:
                return connection
            self._connection = None
            connection.leave()
        if self._closed:
            raise ConnectionAbortedError("this Locks was closed")
        return await self._connecting.done(self._connect)

    async def _connect(self) -> Connection:
        failed: Exception | None = None
        for _ in self.members.hosts:
            turn = self.members.turn
            try:
                self._connection = await self._opened(turn)
            except (OSError, ValueError) as error:
                failed = error
                self.members.leave(turn)
            else:
                return self._connection
        raise failed or OSError("no member is known")

    async def _opened(self, turn: Turn) -> Connection:
        settings, loop = self.settings, asyncio.get_running_loop()

        def make() -> Connection:
            return Connection(settings, turn, loop)

        try:
            async with asyncio.timeout(settings.connect_limit):
                connection = await connected(
                    make, turn.host, settings.connect_limit, tls=settings.tls
                )
        except OSError as error:
            grpc_errors.doubt(settings, error, connected=False)
            raise
        self._open.add(connection)
        connection.ended.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    async def call(
        self, connection: Connection, head: bytes, message: bytes
    ) -> tuple[Answer, float]:
        return await connection.call(head, message)

    async def log_in(self, connection: Connection) -> None:
        await self._logging_in.done(partial(self.log_in_by, connection))

    def give_back(self, connection: Connection) -> None:
        """All use it at the same time."""

    def drop(self, connection: Connection, error: BaseException) -> None:
        """Others may still be answered there, if this was not about the connection. That a task was
        cancelled says nothing about it: an answer that does not come is noticed all the same.
        """
        if isinstance(error, ValueError):
            connection.abort(error)
        elif not isinstance(error, asyncio.CancelledError):
            connection.leave()

    async def close(self) -> None:
        self._closed = True
        self.watcher.stop()
        await self._connecting.ended()  # or what it opens would stay open
        await self._logging_in.ended()
        self._connection = None
        loop = asyncio.get_running_loop()
        for connection in list(self._open):
            error = ConnectionAbortedError("this Locks was closed")
            if connection.loop is loop:
                connection.abort(error)
                await connection.ended
            else:
                _abort(connection, error)

    def forked(self) -> None:
        """The loop and its selector are the parent's too: not even closing is for us."""
        super().forked()
        self._connection = None
        self._connecting.forked()
        self._logging_in.forked()
        self._open = set()

    def dropped(self) -> None:
        self.watcher.stop()
        self._connection = None
        error = ConnectionAbortedError("nobody has this Locks any more")
        if [each for each in list(self._open) if _abort(each, error)]:
            message = "a locknut.aio.Locks was dropped without `await locks.close()`"
            warnings.warn(message, ResourceWarning, stacklevel=2)


def _abort(connection: Connection, error: BaseException) -> bool:
    """From another thread, or another loop; False if there is nothing that could be done."""
    if connection.closed or connection.loop.is_closed():
        return False
    connection.loop.call_soon_threadsafe(connection.abort, error)
    return True
