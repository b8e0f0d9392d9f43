"""The asyncio colour on a cluster: a stream for each node, and a channel for each lock waited for.

The script that makes a grant announces it, in the lock's own slot (sharded pub/sub), so only by
the node that has the lock: on its stream it is younger than every answer before it. Where there is
no sharded pub/sub (before 7.0), messages take ways of their own through the cluster and nothing is
known of their age: then they only ring, and the lock is asked for again.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from hiredis import ReplyError

from locknut.backends.redis import lock_keys
from locknut.backends.redis.aio import PushDelivery
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.recipe import BROKEN, Recipe, bulk
from locknut.backends.redis.server_port import SendMany, understood
from locknut.backends.redis.waiting_claims import ID, WaitingClaim
from locknut.core.findings import Check
from locknut.core.values import Answer, Claim, Mode
from locknut.drivers.redis import wire
from locknut.drivers.redis.cluster.node_links import NodeLinks
from locknut.drivers.redis.cluster.routing import Cluster
from locknut.drivers.redis.confirmations import Confirmation, Gathered
from locknut.drivers.redis.endpoints import TimeAndChance
from locknut.drivers.redis.links import LoopDial, drop
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendUnavailable

_NO_SHARDS: Final = ("ERR unknown command", "NOPERM")
"""What SSUBSCRIBE is answered before 7.0, or by an ACL that was written for that."""
MOST_CHANNELS: Final = 1000
"""How many a stream listens to before those that nobody needs any more are left."""


class LoopCluster:
    """All masters of a cluster, asked by tasks, which share one connection per node."""

    def __init__(self, cluster: Cluster, dial: LoopDial):
        settings = cluster.settings
        self.confirmation = Confirmation(settings) if settings.replicas else None
        self.links = NodeLinks(cluster, dial, BROKEN)
        self._slow_links = NodeLinks(cluster, dial)
        """For what is confirmed: WAIT holds up the streams for everything else."""
        self._gathered = Gathered(self._judged)
        self._closed = False
        """Closing wakes the waiters, which may send one last command: that one hangs up again."""
        self.refused = self.links.refused

    async def ask(self, script: Script, packed: bytes) -> Any:
        (reply,) = await self.send_many([packed])
        return reply if type(reply) is int else await understood(self, script, packed, reply)

    async def send_many(self, packed: Sequence[bytes]) -> list[object]:
        replies = await self.links.route(packed)
        if self._closed:
            await self.close()
        return replies

    async def send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        if self.confirmation is None:
            return await self.send_many(packed)
        return await self._gathered.send_many(packed)

    async def _judged(self, packed: Sequence[bytes]) -> list[object]:
        replies = await self._slow_links.route(packed, self.confirmation)
        if self._closed:
            await self.close()
        return replies

    def era_of(self, packed: bytes) -> object:  # noqa: ARG002 -- a message comes on its node's stream
        return None

    def in_reach(self, claims: Sequence[Claim]) -> bool:
        return lock_keys.one_slot(claims)

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        return self.links.owners_of(map(lock_keys.hold_key_of, claims))

    async def masters(self) -> list[SendMany]:
        return [link.send_many for link in await self.links.masters()]

    def hung_up(self) -> bool:
        """The loop learns of it at once."""
        return False

    def checks(self, prefix: str | None) -> Sequence[Check]:  # noqa: ARG002 -- asked elsewhere
        return ()

    async def close(self) -> None:
        self._closed = True
        await self.links.close()
        await self._slow_links.close()

    def dropped(self) -> None:
        drop([*self.links.known(), *self._slow_links.known()], closed=self._closed)
        self._closed = True

    def forked(self) -> None:
        self.links.forked()
        self._slow_links.forked()
        self._gathered.forked()


class ShardedDelivery(PushDelivery):
    """Each lock that is waited for has a channel of its own, in its own slot."""

    def __init__(self, clock: TimeAndChance):
        super().__init__(clock)
        self._name = os.urandom(8).hex().encode()
        self.sharded = True
        """Whether there is sharded pub/sub, as far as is known."""

    def reply_to(self, waiting: WaitingClaim | None) -> bytes:  # noqa: ARG002 -- each lock has its channel
        return bulk((b"s" if self.sharded else b"p") + self._name)

    def channel_of(self, claim: Claim) -> bytes:
        """Where this lock's grants are announced, as granting.lua names it: in the lock's slot."""
        hold = lock_keys.hold_key(claim.key, permits=claim.mode is Mode.PERMIT)
        return b"%b:told:%b" % (hold, self._name)

    def subscription(self, channel: bytes) -> bytes:
        return wire.pack(b"SSUBSCRIBE" if self.sharded else b"SUBSCRIBE", channel)

    def leave_some(self, stream: Stream) -> None:
        if len(stream.listening) < MOST_CHANNELS:
            return
        needed = {self.channel_of(waiting.claim) for waiting in self.waiting.values()}
        for channel in [each for each in stream.listening if each not in needed]:
            del stream.listening[channel]
            stream.leave(b"SUNSUBSCRIBE" if self.sharded else b"UNSUBSCRIBE", channel)

    def pushed(self, stream: Stream, push: list[Any]) -> None:
        kind, channel, message = push
        if kind == b"smessage" or channel == BROKEN:
            super().pushed(stream, push)
        elif kind == b"message":
            waiting = self.waiting.get(message[:ID].decode())
            if waiting is not None:
                waiting.doubt()
                self.ring(waiting)
        elif channel in stream.listening:  # not left by us: the slot has left that node
            del stream.listening[channel]
            self.lost(stream)


class ShardedBackend(RedisBackend):
    """Listens to a lock's channel, at the node that has it, before it asks for a lock once more."""

    def __init__(self, cluster: Cluster, clock: TimeAndChance):
        self._shards = ShardedDelivery(clock)
        dial = LoopDial(self._shards.pushed, self._shards.lost, clock)
        self._cluster = LoopCluster(cluster, dial)
        super().__init__(self._cluster, self._shards, Recipe(), clock)

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await self._attempt_once(claim, patience)
        waiting = self._waiting.get(claim.id)
        if waiting is None or waiting.signal is None or self._hears(self._shards.channel_of(claim)):
            return answer
        return await self._attempt_once(claim, patience)  # its slot has moved: listen there

    async def _attempt_once(self, claim: Claim, patience: float) -> Answer:
        channel = self._shards.channel_of(claim)
        if not self._hears(channel) and claim.id in self._waiting:
            await self._listen_to(channel)
        heard = self._hears(channel)
        answer = await super().attempt(claim, patience)
        waiting = self._waiting.get(claim.id)
        if waiting is not None:
            waiting.deaf = not heard  # a message may have been missed: ask again, listening
        return answer

    def _hears(self, channel: bytes) -> bool:
        stream = self._cluster.links.known_stream_for(self._shards.subscription(channel))
        return stream is not None and not stream.closed and channel in stream.listening

    async def _listen_to(self, channel: bytes) -> None:
        """To be awaited before the lock is asked for once more: later messages are heard."""
        subscription = self._shards.subscription(channel)
        stream = await self._cluster.links.stream_for(subscription)
        self._shards.leave_some(stream)
        reply = await stream.send(subscription)
        if not isinstance(reply, ReplyError):
            stream.listening[channel] = None
        elif self._shards.sharded and str(reply).startswith(_NO_SHARDS):
            self._shards.sharded = False
            await self._listen_to(channel)
        elif not isinstance(error := self._cluster.refused(reply), BackendUnavailable):
            raise error
