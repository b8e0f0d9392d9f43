"""The one stream of a loop to one endpoint: opened by its first user, and again when it is lost."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from hiredis import HiredisError

from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import (
    LONG_IDLE,
    MACHINE,
    SLOW_TO_OPEN,
    Endpoint,
    TimeAndChance,
    overtaken,
)
from locknut.drivers.redis.recovery import Recovery
from locknut.drivers.redis.settings import Settings
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendUnavailable
from locknut.runtimes.inline_future import InlineFuture
from locknut.runtimes.loop_connections import connected
from locknut.runtimes.shared_task import SharedTask


class LoopDial:
    """How the asyncio colour opens a stream and asks something on it."""

    def __init__(
        self,
        pushed: Callable[[Stream, list[Any]], None],
        lost: Callable[[Stream], None],
        clock: TimeAndChance = MACHINE,
    ):
        self._pushed = pushed
        self._lost = lost
        self.clock = clock

    async def open(self, settings: Settings, *, curious: bool = False) -> Stream:
        loop = asyncio.get_running_loop()

        def make() -> Stream:
            return Stream(settings, loop, self._pushed, self._lost, self.clock.now)

        try:
            async with asyncio.timeout(settings.connect_limit):
                settings = await settings.signed_on_loop()
                if settings.path:
                    _, stream = await loop.create_unix_connection(make, settings.path)
                else:
                    address, limit = (settings.host, settings.port), settings.connect_limit
                    stream = await connected(make, address, limit, tls=settings.tls)
            try:
                await stream.greet(curious=curious)
            except BaseException as error:
                stream.abort(error)
                raise
        except OSError as error:
            wire.doubt(settings, error)
            raise
        except RuntimeError as error:
            if "new thread" in str(error):  # asyncio looks names up on one
                raise ConnectionError(str(error)) from error
            raise
        return stream

    async def ask(self, peer: Stream, packed: bytes) -> Any:
        return await peer.send(packed)


class _Asked:
    """A command that waits for a stream."""

    __slots__ = ("answer", "packed")

    def __init__(self, packed: bytes):
        self.packed = packed
        self.answer: InlineFuture | None = None
        """Since it was sent."""


def drop(links: Iterable[Link], *, closed: bool) -> None:
    """Hang up for a Locks that nobody has any more: its loop keeps the connections for as long as
    it lives, and nobody else knows of them.
    """
    open_ones = [link for link in links if link.dropped()]
    if open_ones and not closed:
        message = "a locknut.aio.Locks was dropped without `await locks.close()`"
        warnings.warn(message, ResourceWarning, stacklevel=2)


class Link:
    """A stream as long as there is one."""

    def __init__(self, endpoint: Endpoint, dial: LoopDial, channels: tuple[bytes, ...] = ()):
        self._endpoint = endpoint
        self._dial = dial
        self._channels = channels
        self._connecting: SharedTask[Stream] = SharedTask()
        self._confirming: SharedTask[None] = SharedTask()
        self._recovery = Recovery()
        self.stream: Stream | None = None
        self._unsent: list[_Asked] = []
        """What is asked while there is no stream: it goes out before what comes later."""
        self.watched = endpoint.watched
        """Whether `ask` is to be used: somebody can tell who the master is."""
        endpoint.latest.follow(self)

    async def connected(self) -> Stream:
        stream = self.stream
        if stream is not None and not stream.closed:
            return stream
        return await self._connecting.done(self._connect)

    async def _connect(self) -> Stream:
        clock = self._dial.clock
        self._recovery.ensure_time(clock)
        begun = clock.now()
        try:
            stream = await self._endpoint.reach(self._dial)
        except BackendUnavailable as error:
            self._recovery.failed(error, clock)
            raise
        except (OSError, HiredisError) as error:
            unreachable = wire.unreachable(self._endpoint.settings, error)
            if isinstance(unreachable, BackendUnavailable):
                self._recovery.failed(unreachable, clock)
            raise unreachable from error
        self._recovery.reached()
        await stream.subscribe(*self._channels)
        latest = self._endpoint.latest
        latest.reached(stream.peer)
        epoch = latest.epoch
        slow = clock.now() - begun > SLOW_TO_OPEN
        if self.watched and slow:  # it was frozen, perhaps, and deposed
            await self._endpoint.confirm(self._dial)
        if epoch != latest.epoch:
            stream.close()
            raise overtaken(self._endpoint.settings)
        self.stream = stream
        unsent, self._unsent = self._unsent, []
        for asked in unsent:
            asked.answer = stream.send(asked.packed)
        return stream

    async def ask_in_turn(self, packed: bytes) -> Any:
        """One command when there is no stream, in the order in which they come: whoever is first
        here is first in a line of the server.
        """
        asked = _Asked(packed)
        self._unsent.append(asked)
        try:
            stream = await self._connecting.done(self._connect)
        finally:
            if asked in self._unsent:
                self._unsent.remove(asked)
        # Where it came too late for that stream's beginning, it is sent now.
        return await (stream.send(packed) if asked.answer is None else asked.answer)

    async def send_many(self, packed: Sequence[bytes]) -> list[Any]:
        """Several commands in one round trip."""
        if self.watched:
            return await self._ask(packed)
        stream = self.stream
        if stream is None or stream.closed:
            stream = await self.connected()
        return await stream.send_many(packed)

    async def ask(self, packed: bytes) -> Any:
        """One command, at an endpoint that is watched."""
        (reply,) = await self._ask([packed])
        return reply

    async def _ask(self, packed: Sequence[bytes]) -> list[Any]:
        """Before a server is asked that was not heard of for a while, and before an answer is
        believed that took as long, it is found out whether another is the master by now.
        """
        now = self._dial.clock.now
        stream = await self.connected()
        if now() - stream.anchor > LONG_IDLE:
            await self._confirming.done(self._confirm)
            stream = await self.connected()
        sent = now()
        replies = await stream.send_many(packed)
        if now() - sent > LONG_IDLE:
            await self._confirming.done(self._confirm)
        if stream is not self.stream:
            raise overtaken(self._endpoint.settings)
        return replies

    async def _confirm(self) -> None:
        await self._endpoint.confirm(self._dial)
        await asyncio.sleep(0)  # `overtaken` has its say

    def overtaken(self) -> None:
        """From any thread: what the old server answers from here on does not count."""
        stream = self.stream
        if stream is not None:
            stream.soon(partial(self._leave, stream))

    def _leave(self, stream: Stream) -> None:
        if stream is self.stream:
            self.stream = None
        stream.abort(ConnectionAbortedError("another server is the master now"))

    def forget(self) -> None:
        """Whatever comes next is asked on a new stream; what is under way here is not disturbed."""
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.retire()

    async def close(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.abort(BackendUnavailable("this Locks was closed", backend="redis"))
            await stream.ended

    def dropped(self) -> bool:
        """From any thread: nobody will ask any more. Whether there was a connection to close."""
        stream, self.stream = self.stream, None
        return stream is not None and stream.soon(stream.close)

    def forked(self) -> None:
        """The loop and its selector are the parent's too: not even closing is for us."""
        self.stream = None
        self._unsent = []
        self._endpoint.latest.forked()
        self._connecting.forked()
        self._confirming.forked()
