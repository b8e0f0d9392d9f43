"""The asyncio colour: one connection per Locks, on which the server also pushes its grants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

from holdfast.backends.redis import wire
from holdfast.backends.redis.backend import RedisBackend
from holdfast.backends.redis.recipe import bulk
from holdfast.backends.redis.scripts import Script
from holdfast.backends.redis.settings import Settings
from holdfast.backends.redis.streams import Stream
from holdfast.backends.redis.waiting import ID, Waiting
from holdfast.core.ports import Signal
from holdfast.errors import BackendUnavailable


class AsyncioBackend(RedisBackend):
    """All tasks share one connection; a caller that gives up never disturbs another's answer."""

    def __init__(self, settings: Settings):
        super().__init__()
        self._settings = settings
        self._stream: Stream | None = None
        self._connecting: asyncio.Task[Stream] | None = None
        self._closed = False
        """Who waited is woken by closing, and may have a last word: it hangs up again."""
        self._channel = b"holdfast:" + os.urandom(16).hex().encode()
        """Outlives a connection: a channel is listened to by all, so none can eat a message."""
        self._told_on = bulk(b"c" + self._channel)

    async def _ask(self, script: Script, packed: bytes) -> Any:
        stream = self._stream
        if stream is None or stream.closed:
            stream = await self._connected()
        reply = await stream.send(packed)
        if self._closed:
            await self.close()
        return reply if type(reply) is int else await self._understood(script, packed, reply)

    async def _send_many(self, packed: Sequence[bytes]) -> list[Any]:
        stream = self._stream
        if stream is None or stream.closed:
            stream = await self._connected()
        replies = list(await asyncio.gather(*[stream.send(each) for each in packed]))
        if self._closed:
            await self.close()
        return replies

    def _reply_to(self, waiting: Waiting | None) -> bytes:  # noqa: ARG002 -- all on one channel
        return self._told_on

    def _signal(self, waiting: Waiting, plain: Signal) -> Signal:  # noqa: ARG002 -- `_pushed` rings
        return plain

    async def _connected(self) -> Stream:
        """Whoever comes first connects, in a task of its own, so that its time limit is its own."""
        if self._connecting is None:
            task = asyncio.get_running_loop().create_task(self._connect())
            self._connecting = task
            task.add_done_callback(self._connect_done)
        return await asyncio.shield(self._connecting)

    def _connect_done(self, task: asyncio.Task[Stream]) -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._stream = task.result()

    async def _connect(self) -> Stream:
        settings, loop = self._settings, asyncio.get_running_loop()

        def make() -> Stream:
            return Stream(settings, loop, self._pushed, self._lost)

        try:
            async with asyncio.timeout(settings.connect_limit):
                if settings.path:
                    _, stream = await loop.create_unix_connection(make, settings.path)
                else:
                    _, stream = await loop.create_connection(
                        make, settings.host, settings.port, ssl=settings.tls
                    )
        except OSError as error:
            raise wire.unreachable(settings, error) from error
        try:
            await stream.greet(self._channel)
        except BaseException as error:
            stream.abort(error)
            raise
        return stream

    def _pushed(self, channel: bytes, message: bytes) -> None:  # noqa: ARG002 -- there is one
        waiting = self._waiting.get(message[:ID].decode())
        stream = self._stream
        if waiting is None or stream is None:
            return
        if waiting.told(message, stream.anchor) and waiting.signal is not None:
            waiting.signal.notify()

    def _lost(self) -> None:
        """Who waits asks again at once: what was pushed meanwhile is found by asking."""
        for waiting in self._waiting.values():
            if waiting.signal is not None:
                waiting.signal.notify()

    async def close(self) -> None:
        self._closed = True
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.abort(BackendUnavailable("this Locks was closed", backend="redis"))
            await stream.ended

    def forked(self) -> None:
        # The loop and its selector are the parent's too: not even closing is for us.
        self._stream = self._connecting = None
        self._waiting.clear()
