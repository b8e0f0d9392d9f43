"""The asyncio colour of a foreign layout: one connection, which also listens for all waiters."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from hiredis import ReplyError

from locknut.backends.redis.aio import LoopServer, PushDelivery
from locknut.backends.redis.layouts.foreign_backend import ForeignBackend
from locknut.backends.redis.layouts.foreign_layout import Layout
from locknut.backends.redis.recipe import BROKEN
from locknut.core.ports import Signal
from locknut.drivers.redis import wire
from locknut.drivers.redis.endpoints import Endpoint, TimeAndChance
from locknut.drivers.redis.links import Link, LoopDial
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendError
from locknut.runtimes.inline_future import InlineFuture


def asyncio_foreign_backend(
    endpoint: Endpoint, layout: Layout, clock: TimeAndChance
) -> ForeignBackend:
    """One connection, on which all waiters listen."""
    delivery = PushDelivery(clock)
    endpoint.latest.listen(delivery.moved)
    ears = LoopEars(delivery)
    server = LoopServer(endpoint, LoopDial(ears.pushed, ears.lost, clock), (BROKEN,))
    ears.link = server.link
    return ForeignBackend(server, ears, layout, clock)


class LoopEars:
    """A subscription goes out on the stream before the question does, and is applied before it."""

    link: Link

    def __init__(self, delivery: PushDelivery):
        self._delivery = delivery
        """For news of holds: no claim waits in it."""
        self.waiters: dict[bytes, set[Signal]] = {}
        """The waiters, by the channel."""
        self._listening: Stream | None = None
        self._channels: set[bytes] = set()
        """What that stream is subscribed to."""
        self._deaf: BackendError | None = None
        """Why the server does not let us listen."""
        self.listen = delivery.listen
        self.close = delivery.close

    async def ready(self, channel: bytes) -> None:
        if channel in self.waiters:
            self._subscribe(await self.link.connected(), channel)
            if self._deaf is not None:
                raise self._deaf

    def watch(self, channel: bytes, signal: Signal) -> AbstractContextManager[Signal]:
        return Listening(self, channel, signal)

    def hear(self, channel: bytes, signal: Signal) -> None:
        """From now on; the question that follows subscribes."""
        self.waiters.setdefault(channel, set()).add(signal)

    def forget(self, channel: bytes, signal: Signal) -> None:
        signals = self.waiters.get(channel, set())
        signals.discard(signal)
        if not signals:
            self.waiters.pop(channel, None)
            if channel in self._channels and self._listening is not None:
                self._channels.discard(channel)
                self._listening.leave(b"UNSUBSCRIBE", channel)

    def _subscribe(self, stream: Stream, channel: bytes) -> None:
        if stream is not self._listening:
            self._listening, self._deaf = stream, None
            self._channels.clear()
        if channel not in self._channels:
            self._channels.add(channel)
            stream.send(wire.pack(b"SUBSCRIBE", channel)).add_done_callback(self._subscribed)

    def _subscribed(self, future: InlineFuture) -> None:
        if not future.cancelled() and future.exception() is None:
            reply = future.result()
            if isinstance(reply, ReplyError):
                self._deaf = wire.failed(reply)

    def pushed(self, stream: Stream, push: list[Any]) -> None:  # noqa: ARG002 -- there is one
        if push[1] == BROKEN:
            self._delivery.broken(push[2])
        elif push[0] != b"message":
            return  # the end of a subscription
        for signal in self.waiters.get(push[1], ()):
            signal.notify()

    def lost(self, stream: Stream) -> None:
        """All waiters ask again at once, and so connect and subscribe again."""
        self._delivery.lost(stream)
        for signals in self.waiters.values():
            for signal in signals:
                signal.notify()

    def forked(self) -> None:
        self.waiters.clear()
        self._channels.clear()
        self._listening = None


class Listening:
    """A signal in the ears of a loop, for as long as its caller waits."""

    def __init__(self, ears: LoopEars, channel: bytes, signal: Signal):
        self._ears = ears
        self._channel = channel
        self._signal = signal

    def __enter__(self) -> Signal:
        self._ears.hear(self._channel, self._signal)
        return self._signal

    def __exit__(self, *raised: object) -> None:
        self._ears.forget(self._channel, self._signal)
