"""The one stream of a loop to one place: made by who needs it first, and again when it is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from holdfast.backends.redis import wire
from holdfast.backends.redis.places import Place
from holdfast.backends.redis.settings import Settings
from holdfast.backends.redis.streams import Stream
from holdfast.errors import BackendError, BackendUnavailable


class Link:
    """A stream as long as there is one."""

    def __init__(
        self,
        place: Place,
        pushed: Callable[[Stream, list[Any]], None],
        lost: Callable[[Stream], None],
        channel: bytes | None = None,
    ):
        self._place = place
        self._pushed = pushed
        self._lost = lost
        self._channel = channel
        self._connecting: asyncio.Task[Stream] | None = None
        self.stream: Stream | None = None

    async def connected(self) -> Stream:
        """Whoever comes first connects, in a task of its own, so that its time limit is its own."""
        stream = self.stream
        if stream is not None and not stream.closed:
            return stream
        if self._connecting is None:
            task = asyncio.get_running_loop().create_task(self._connect())
            self._connecting = task
            task.add_done_callback(self._connect_done)
        return await asyncio.shield(self._connecting)

    def _connect_done(self, task: asyncio.Task[Stream]) -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self.stream = task.result()

    async def _connect(self) -> Stream:
        try:
            stream = await self._place.reach(self)
        except OSError as error:
            if isinstance(error, BackendError):
                raise
            raise wire.unreachable(self._place.settings, error) from error
        if self._channel is not None:
            await stream.subscribe(self._channel)
        return stream

    async def open(self, settings: Settings, *, curious: bool = False) -> Stream:
        loop = asyncio.get_running_loop()

        def make() -> Stream:
            return Stream(settings, loop, self._pushed, self._lost)

        async with asyncio.timeout(settings.connect_limit):
            if settings.path:
                _, stream = await loop.create_unix_connection(make, settings.path)
            else:
                host, port = settings.host, settings.port
                _, stream = await loop.create_connection(make, host, port, ssl=settings.tls)
        try:
            await stream.greet(curious=curious)
        except BaseException as error:
            stream.abort(error)
            raise
        return stream

    async def ask(self, peer: Stream, packed: bytes) -> Any:
        return await peer.send(packed)

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

    def forked(self) -> None:
        """The loop and its selector are the parent's too: not even closing is for us."""
        self.stream = self._connecting = None
