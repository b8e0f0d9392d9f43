"""The asyncio colour of a foreign layout: one connection, which also listens for all who wait."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from hiredis import ReplyError

from locknut.backends.redis.aio import AsyncioBackend
from locknut.backends.redis.layouts.foreign_layout import Layout
from locknut.backends.redis.layouts.foreign_verbs import ForeignVerbs
from locknut.backends.redis.recipe import BROKEN
from locknut.core.ports import Signal
from locknut.core.values import Answer, Claim
from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import Clock, Endpoint
from locknut.drivers.redis.inline_future import InlineFuture
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendError


class AsyncioForeign(ForeignVerbs, AsyncioBackend):
    """A subscription goes out on the stream before the question does, and is applied before it."""

    def __init__(self, endpoint: Endpoint, layout: Layout, clock: Clock):
        AsyncioBackend.__init__(self, endpoint, clock)
        self._speak(layout)
        self._ears: dict[bytes, set[Signal]] = {}
        """Who waits, by the channel."""
        self._listening: Stream | None = None
        self._channels: set[bytes] = set()
        """What that stream is subscribed to."""
        self._deaf: BackendError | None = None
        """Why the server does not let us listen."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        if self._ears and (channel := self._foreign.ear(claim)) in self._ears:
            self._subscribe(await self._link.connected(), channel)
            if self._deaf is not None:
                raise self._deaf
        return await super().attempt(claim, patience)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return Listening(self, self._foreign.ear(claim), signal())

    def hear(self, channel: bytes, signal: Signal) -> None:
        """From now on; the question that follows subscribes."""
        self._ears.setdefault(channel, set()).add(signal)

    def forget(self, channel: bytes, signal: Signal) -> None:
        signals = self._ears.get(channel, set())
        signals.discard(signal)
        if not signals:
            self._ears.pop(channel, None)
            if channel in self._channels and self._listening is not None:
                self._channels.discard(channel)
                self._listening.leave(b"UNSUBSCRIBE", channel)

    def _subscribe(self, stream: Stream, channel: bytes) -> None:
        if stream is not self._listening:
            self._listening, self._deaf = stream, None
            self._channels.clear()
        if channel not in self._channels:
            self._channels.add(channel)
            stream.send(wire.pack(b"SUBSCRIBE", channel)).add_done_callback(self._told)

    def _told(self, future: InlineFuture) -> None:
        if not future.cancelled() and future.exception() is None:
            reply = future.result()
            if isinstance(reply, ReplyError):
                self._deaf = wire.failed(reply)

    def _pushed(self, stream: Stream, push: list[Any]) -> None:
        if push[1] == BROKEN:
            super()._pushed(stream, push)
        elif push[0] != b"message":
            return  # the end of a subscription
        for signal in self._ears.get(push[1], ()):
            signal.notify()

    def _lost(self, stream: Stream) -> None:
        """Who waits asks again at once, and so connects and subscribes again."""
        super()._lost(stream)
        for signals in self._ears.values():
            for signal in signals:
                signal.notify()

    def forked(self) -> None:
        super().forked()
        self._ears.clear()
        self._channels.clear()
        self._listening = None


class Listening:
    """A signal in the backend's ears, for as long as its caller waits."""

    def __init__(self, backend: AsyncioForeign, channel: bytes, signal: Signal):
        self._backend = backend
        self._channel = channel
        self._signal = signal

    def __enter__(self) -> Signal:
        self._backend.hear(self._channel, self._signal)
        return self._signal

    def __exit__(self, *raised: object) -> None:
        self._backend.forget(self._channel, self._signal)
