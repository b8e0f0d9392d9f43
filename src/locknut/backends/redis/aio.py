"""The asyncio colour: one connection per Locks, on which the server also pushes its grants."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from hiredis import ReplyError

from locknut.backends.redis import attendance
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.recipe import BROKEN, Recipe, bulk
from locknut.backends.redis.server_port import SendMany, understood
from locknut.backends.redis.waiting_claims import ID, WaitingClaim
from locknut.core.findings import Check
from locknut.core.ports import Signal
from locknut.core.values import Answer, Broken, Busy, Claim, Notice, Renewal
from locknut.drivers.redis import wire
from locknut.drivers.redis.confirmations import Confirmation, Gathered
from locknut.drivers.redis.endpoints import MACHINE, Endpoint, TimeAndChance
from locknut.drivers.redis.links import Link, LoopDial, drop
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendError

_EARLY: Final = 1000
"""More grants than this were never read together with the answers of askers that still run."""


def asyncio_backend(endpoint: Endpoint, clock: TimeAndChance = MACHINE) -> RedisBackend:
    """Our own layout at one server. All tasks share one connection."""
    delivery = PushDelivery(clock)
    endpoint.latest.listen(delivery.moved)
    dial = LoopDial(delivery.pushed, delivery.lost, clock)
    server = LoopServer(endpoint, dial, (delivery.channel, BROKEN))
    return RedisBackend(server, delivery, Recipe(), clock)


class LoopServer:
    """One server, asked by tasks: a caller that gives up never disturbs another's answer."""

    def __init__(self, endpoint: Endpoint, dial: LoopDial, channels: tuple[bytes, ...]):
        settings = endpoint.settings
        self.confirmation = Confirmation(settings) if settings.replicas else None
        self.link = Link(endpoint, dial, channels)
        self._slow_link = Link(endpoint, dial)
        """For what is confirmed: WAIT holds up the stream for everything else."""
        self._gathered = Gathered(self._judged)
        self._closed = False
        """Closing wakes the waiters, which may send one last command: that one hangs up again."""

    async def ask(self, script: Script, packed: bytes) -> Any:
        link = self.link
        stream = link.stream
        if link.watched:
            reply = await link.ask(packed)
        elif stream is None or stream.closed:
            reply = await link.ask_in_turn(packed)
        else:
            reply = await stream.send(packed)
        if self._closed:
            await self.close()
        return reply if type(reply) is int else await understood(self, script, packed, reply)

    async def send_many(self, packed: Sequence[bytes]) -> list[object]:
        replies = await self.link.send_many(packed)
        if self._closed:
            await self.close()
        return replies

    async def send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        if self.confirmation is None:
            return await self.send_many(packed)
        return await self._gathered.send_many(packed)

    async def _judged(self, packed: Sequence[bytes]) -> list[object]:
        if self.confirmation is None:
            return []
        await self.link.connected()  # who is put in line has to be listening
        replies = await self._slow_link.send_many([*packed, self.confirmation.question])
        if self._closed:
            await self.close()
        return self.confirmation.judge(replies)

    def refused(self, reply: ReplyError) -> BackendError:
        if wire.elsewhere(reply):
            self.link.forget()
            self._slow_link.forget()
        return wire.failed(reply)

    def era_of(self, packed: bytes) -> object:  # noqa: ARG002 -- there is one connection
        return None

    def in_reach(self, claims: Sequence[Claim]) -> bool:  # noqa: ARG002 -- a cluster looks
        return True

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        return [None] * len(claims)

    async def masters(self) -> list[SendMany]:
        return [self.send_many]

    def hung_up(self) -> bool:
        """The loop learns of it at once."""
        return False

    def checks(self, prefix: str | None) -> Sequence[Check]:  # noqa: ARG002 -- asked elsewhere
        return ()

    async def close(self) -> None:
        self._closed = True
        await self.link.close()
        await self._slow_link.close()

    def dropped(self) -> None:
        drop([self.link, self._slow_link], closed=self._closed)
        self._closed = True

    def forked(self) -> None:
        self.link.forked()
        self._slow_link.forked()
        self._gathered.forked()


class PushDelivery:
    """What is pushed, and who is rung for it."""

    sleeps_with_question = False

    def __init__(self, clock: TimeAndChance) -> None:
        self._now = clock.now
        self._on_notice: Callable[[str | None, Notice], None] = _nobody
        self.channel = b"locknut:" + os.urandom(16).hex().encode()
        """Outlives a connection: a channel is listened to by all, so none can eat a message."""
        self._told_on = bulk(b"c" + self.channel)
        self.waiting: dict[str, WaitingClaim] = {}
        self.early: dict[str, tuple[bytes, float]] = {}
        self.crowded: set[str] = set()

    def reply_to(self, waiting: WaitingClaim | None) -> bytes:  # noqa: ARG002 -- all on one channel
        return self._told_on

    async def ask_and_sleep(self, claim: Claim, patience: float) -> Answer | None:  # noqa: ARG002 -- just asks
        return None

    def signal(self, waiting: WaitingClaim, plain: Callable[[], Signal]) -> Signal:  # noqa: ARG002 -- `pushed` rings
        return plain()

    def ring(self, waiting: WaitingClaim) -> None:
        if waiting.signal is not None:
            waiting.signal.notify()

    def until_asked(self, waiting: WaitingClaim, busy: Busy, another_asks: bool) -> Busy:
        """A claim that does not ask for all is rung for whatever happens: its grant, the end of the
        connection, the end of the claim that asked for all.
        """
        if not another_asks or busy.retry_in < attendance.BEAT:
            return busy
        return Busy(max(busy.retry_in, waiting.ask_at - self._now()))

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self._on_notice = on_notice

    def moved(self) -> None:
        """The holds may be somebody else's by now: they are looked at, at once."""
        self._on_notice(None, Renewal.HELD)

    def pushed(self, stream: Stream, push: list[Any]) -> None:
        message: bytes = push[2]
        if push[1] == BROKEN:
            self.broken(message)
            return
        claim_id = message[:ID].decode()
        waiting = self.waiting.get(claim_id)
        if waiting is None:
            if len(self.early) >= _EARLY:  # of claims that were given up: they would only pile up
                self.early.clear()
            self.early[claim_id] = message, stream.anchor
        elif waiting.take_message(message, stream.anchor) and waiting.signal is not None:
            waiting.signal.notify()

    def broken(self, message: bytes) -> None:
        broken, _, note = message.decode(errors="replace").partition(" ")
        self._on_notice(broken, Broken(note) if note else Renewal.LOST)

    def lost(self, stream: Stream) -> None:  # noqa: ARG002 -- asking again finds out whose it was
        """All waiters ask again at once: what was pushed meanwhile is found by asking."""
        self.early.clear()
        self.moved()
        for waiting in self.waiting.values():
            waiting.doubt()
            self.ring(waiting)

    def close(self) -> None:
        self._on_notice = _nobody

    def forked(self) -> None:
        self.waiting.clear()
        self.early.clear()


def _nobody(_id: str | None, _notice: Notice) -> None:
    """Listens."""
