"""The asyncio colour: one connection per Locks, on which the server also pushes its grants."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from hiredis import ReplyError

from locknut.backends.redis import attendance
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.recipe import BROKEN, bulk
from locknut.backends.redis.waiting_claims import ID, WaitingClaim
from locknut.core.ports import Signal
from locknut.core.values import Broken, Busy, Notice, Renewal
from locknut.drivers.redis import wire
from locknut.drivers.redis.confirmations import Confirmation, Gathered
from locknut.drivers.redis.endpoints import MACHINE, Clock, Endpoint
from locknut.drivers.redis.links import Link, LoopDial, drop
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.settings import Settings
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendError

_EARLY: Final = 1000
"""More grants than this were never read together with the answers of askers that still run."""


class LoopBackend(RedisBackend):
    """What is pushed, and who is rung for it."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        super().__init__(settings, clock)
        self._closed = False
        """Who waited is woken by closing, and may have a last word: it hangs up again."""
        self._gathered = Gathered(self._judged)
        self._on_notice: Callable[[str | None, Notice], None] = lambda *_: None

    async def _send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        if self._confirmation is None:
            return await self._send_many(packed)
        return await self._gathered.send_many(packed)

    async def _judged(self, packed: Sequence[bytes]) -> list[object]:
        if self._confirmation is None:
            return []
        replies = await self._confirmed(packed, self._confirmation)
        if self._closed:
            await self.close()
        return replies

    @abstractmethod
    async def _confirmed(self, packed: Sequence[bytes], confirmation: Confirmation) -> list[object]:
        """Send them with the question, not on the stream for everything else: WAIT holds it up."""

    def _signal(self, waiting: WaitingClaim, plain: Callable[[], Signal]) -> Signal:  # noqa: ARG002 -- `_pushed` rings
        return plain()

    def _ring(self, waiting: WaitingClaim) -> None:
        if waiting.signal is not None:
            waiting.signal.notify()

    def _until_asked(self, waiting: WaitingClaim, busy: Busy) -> Busy:
        """Who does not ask for all is rung for whatever happens: by its grant, by the end of the
        connection, by whoever asked and leaves.
        """
        if not self._another_asks(waiting) or busy.retry_in < attendance.BEAT:
            return busy
        return Busy(max(busy.retry_in, waiting.ask_at - self._now()))

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self._on_notice = on_notice

    @abstractmethod
    def _all_links(self) -> list[Link]:
        """Every connection that there may be."""

    def dropped(self) -> None:
        drop(self._all_links(), closed=self._closed)
        self._closed = True

    def _moved(self) -> None:
        """The holds may be somebody else's by now: they are looked at, at once."""
        if not self._closed:
            self._on_notice(None, Renewal.HELD)

    def _pushed(self, stream: Stream, push: list[Any]) -> None:
        message: bytes = push[2]
        if push[1] == BROKEN:
            broken, _, note = message.decode(errors="replace").partition(" ")
            self._on_notice(broken, Broken(note) if note else Renewal.LOST)
            return
        claim_id = message[:ID].decode()
        waiting = self._waiting.get(claim_id)
        if waiting is None:
            if len(self._early) >= _EARLY:  # of claims that were given up: they would only pile up
                self._early.clear()
            self._early[claim_id] = message, stream.anchor
        elif waiting.told(message, stream.anchor) and waiting.signal is not None:
            waiting.signal.notify()

    def _lost(self, stream: Stream) -> None:  # noqa: ARG002 -- asking again finds out whose it was
        """Who waits asks again at once: what was pushed meanwhile is found by asking."""
        self._early.clear()
        self._moved()
        for waiting in self._waiting.values():
            waiting.doubt()
            self._ring(waiting)


class AsyncioBackend(LoopBackend):
    """All tasks share one connection; a caller that gives up never disturbs another's answer."""

    def __init__(self, endpoint: Endpoint, clock: Clock = MACHINE):
        super().__init__(endpoint.settings, clock)
        channel = b"locknut:" + os.urandom(16).hex().encode()
        dial = LoopDial(self._pushed, self._lost, clock)
        endpoint.latest.listen(self._moved)
        self._link = Link(endpoint, dial, (channel, BROKEN))
        self._slow_link = Link(endpoint, dial)
        self._told_on = bulk(b"c" + channel)
        """Outlives a connection: a channel is listened to by all, so none can eat a message."""

    async def _ask(self, script: Script, packed: bytes) -> Any:
        stream = self._link.stream
        if self._link.watched:
            reply = await self._link.ask(packed)
        elif stream is None or stream.closed:
            reply = await self._link.ask_in_turn(packed)
        else:
            reply = await stream.send(packed)
        if self._closed:
            await self.close()
        return reply if type(reply) is int else await self._understood(script, packed, reply)

    async def _send_many(self, packed: Sequence[bytes]) -> list[object]:
        replies = await self._link.send_many(packed)
        if self._closed:
            await self.close()
        return replies

    async def _confirmed(self, packed: Sequence[bytes], confirmation: Confirmation) -> list[object]:
        await self._link.connected()  # who is put in line has to be listening
        replies = await self._slow_link.send_many([*packed, confirmation.question])
        return confirmation.judge(replies)

    def _all_links(self) -> list[Link]:
        return [self._link, self._slow_link]

    def _refused(self, reply: ReplyError) -> BackendError:
        if wire.elsewhere(reply):
            self._link.forget()
            self._slow_link.forget()
        return wire.failed(reply)

    def _reply_to(self, waiting: WaitingClaim | None) -> bytes:  # noqa: ARG002 -- all on one channel
        return self._told_on

    async def close(self) -> None:
        self._closed = True
        await self._link.close()
        await self._slow_link.close()

    def forked(self) -> None:
        for link in (self._link, self._slow_link):
            link.forked()
        self._gathered.forked()
        self._forget_claims()
        self._early.clear()
