"""The asyncio colour of a foreign layout: one connection, which also listens for all who wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from hiredis import ReplyError

from holdfast.backends.redis import wire
from holdfast.backends.redis.aio import AsyncioBackend
from holdfast.backends.redis.layouts.layout import Layout
from holdfast.backends.redis.layouts.verbs import ForeignVerbs
from holdfast.backends.redis.settings import Settings
from holdfast.backends.redis.streams import Stream
from holdfast.core.ports import Signal
from holdfast.core.values import Answer, Claim
from holdfast.errors import BackendError


class AsyncioForeign(ForeignVerbs, AsyncioBackend):
    """A subscription goes out on the stream before the question does, and is applied before it."""

    def __init__(self, settings: Settings, layout: Layout):
        AsyncioBackend.__init__(self, settings)
        self._speak(layout)
        self._ears: dict[bytes, set[Signal]] = {}
        """Who waits, by the channel."""
        self._deaf: BackendError | None = None
        """Why the server does not let us listen."""

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        if self._deaf is not None and self._foreign.ear(claim) in self._ears:
            raise self._deaf
        return await super().attempt(claim, patience)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return Listening(self, self._foreign.ear(claim), signal())

    def hear(self, channel: bytes, signal: Signal) -> None:
        if channel not in self._ears:
            self._say(b"SUBSCRIBE", channel)
        self._ears.setdefault(channel, set()).add(signal)

    def forget(self, channel: bytes, signal: Signal) -> None:
        signals = self._ears.get(channel)
        if signals is not None:
            signals.discard(signal)
            if not signals:
                del self._ears[channel]
                self._say(b"UNSUBSCRIBE", channel)

    def _say(self, *words: bytes) -> None:
        stream = self._stream
        if stream is not None and not stream.closed:  # else all of them go out with a new one
            stream.send(wire.pack(*words)).add_done_callback(self._said)

    def _said(self, future: asyncio.Future[Any]) -> None:
        if not future.cancelled() and future.exception() is None:
            reply = future.result()
            if isinstance(reply, ReplyError):
                self._deaf = wire.failed(reply)

    def _connect_done(self, task: asyncio.Task[Stream]) -> None:
        """Before anybody sends on the new connection, it listens to what the old one did."""
        super()._connect_done(task)
        self._deaf = None
        for channel in self._ears:
            self._say(b"SUBSCRIBE", channel)

    def _pushed(self, channel: bytes, message: bytes) -> None:  # noqa: ARG002 -- all say the same
        for signal in self._ears.get(channel, ()):
            signal.notify()

    def _lost(self) -> None:
        """Who waits asks again at once, and so connects again."""
        for signals in self._ears.values():
            for signal in signals:
                signal.notify()

    def forked(self) -> None:
        super().forked()
        self._ears.clear()


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
