"""The asyncio colour on a cluster: a stream for each node, and a channel for each lock waited for.

A grant is told by the script that makes it, in the lock's own slot (sharded pub/sub), so only by
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
from locknut.backends.redis.aio import LoopBackend
from locknut.backends.redis.inspector import SendMany
from locknut.backends.redis.recipe import BROKEN, bulk
from locknut.backends.redis.waiting_claims import ID, WaitingClaim
from locknut.core.values import Answer, Claim, Mode
from locknut.drivers.redis import wire
from locknut.drivers.redis.cluster.node_links import NodeLinks
from locknut.drivers.redis.cluster.routing import Cluster
from locknut.drivers.redis.confirmations import Confirmation
from locknut.drivers.redis.endpoints import Clock
from locknut.drivers.redis.links import Link, LoopDial
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.streams import Stream
from locknut.errors import BackendError, BackendUnavailable

_NO_SHARDS: Final = ("ERR unknown command", "NOPERM")
"""What SSUBSCRIBE is answered before 7.0, or by an ACL that was written for that."""
MOST_CHANNELS: Final = 1000
"""How many a stream listens to before those that nobody needs any more are left."""


class AsyncioClusterBackend(LoopBackend):
    """All tasks share one connection per node."""

    def __init__(self, cluster: Cluster, clock: Clock):
        super().__init__(cluster.settings, clock)
        dial = LoopDial(self._pushed, self._lost, clock)
        self._links = NodeLinks(cluster, dial, BROKEN)
        self._slow_links = NodeLinks(cluster, dial)
        self._name = os.urandom(8).hex().encode()
        self._sharded = True

    async def _ask(self, script: Script, packed: bytes) -> Any:
        (reply,) = await self._send_many([packed])
        return reply if type(reply) is int else await self._understood(script, packed, reply)

    async def _send_many(self, packed: Sequence[bytes]) -> list[object]:
        replies = await self._links.route(packed)
        if self._closed:
            await self.close()
        return replies

    async def _confirmed(self, packed: Sequence[bytes], confirmation: Confirmation) -> list[object]:
        return await self._slow_links.route(packed, confirmation)

    def _all_links(self) -> list[Link]:
        return [*self._links.known(), *self._slow_links.known()]

    def _in_reach(self, claims: Sequence[Claim]) -> bool:
        return lock_keys.one_slot(claims)

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        return self._links.owners_of(map(lock_keys.hold_key_of, claims))

    async def _servers(self) -> list[SendMany]:
        return [link.send_many for link in await self._links.masters()]

    def _refused(self, reply: ReplyError) -> BackendError:
        return self._links.refused(reply)

    def _reply_to(self, waiting: WaitingClaim | None) -> bytes:  # noqa: ARG002 -- each lock has its channel
        return bulk((b"s" if self._sharded else b"p") + self._name)

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await self._attempt_once(claim, patience)
        waiting = self._waiting.get(claim.id)
        if waiting is None or waiting.signal is None or self._hears(self._channel(claim)):
            return answer
        return await self._attempt_once(claim, patience)  # its slot has moved: listen there

    async def _attempt_once(self, claim: Claim, patience: float) -> Answer:
        channel = self._channel(claim)
        if not self._hears(channel) and claim.id in self._waiting:
            await self._listen(channel)
        heard = self._hears(channel)
        answer = await super().attempt(claim, patience)
        waiting = self._waiting.get(claim.id)
        if waiting is not None:
            waiting.deaf = not heard  # a message may have been missed: ask again, listening
        return answer

    def _hears(self, channel: bytes) -> bool:
        stream = self._links.known_stream_for(self._listening(channel))
        return stream is not None and not stream.closed and channel in stream.listening

    def _channel(self, claim: Claim) -> bytes:
        """Where this lock's grants are told to us, as granting.lua names it: in the lock's slot."""
        hold = lock_keys.hold_key(claim.key, permits=claim.mode is Mode.PERMIT)
        return b"%b:told:%b" % (hold, self._name)

    def _listening(self, channel: bytes) -> bytes:
        return wire.pack(b"SSUBSCRIBE" if self._sharded else b"SUBSCRIBE", channel)

    async def _listen(self, channel: bytes) -> None:
        """Before the lock is asked for once more: what is told from then on is heard."""
        listening = self._listening(channel)
        stream = await self._links.stream_for(listening)
        self._leave_some(stream)
        reply = await stream.send(listening)
        if not isinstance(reply, ReplyError):
            stream.listening[channel] = None
        elif self._sharded and str(reply).startswith(_NO_SHARDS):
            self._sharded = False
            await self._listen(channel)
        elif not isinstance(error := self._refused(reply), BackendUnavailable):
            raise error

    def _leave_some(self, stream: Stream) -> None:
        if len(stream.listening) < MOST_CHANNELS:
            return
        needed = {self._channel(waiting.claim) for waiting in self._waiting.values()}
        for channel in [each for each in stream.listening if each not in needed]:
            del stream.listening[channel]
            stream.leave(b"SUNSUBSCRIBE" if self._sharded else b"UNSUBSCRIBE", channel)

    def _pushed(self, stream: Stream, push: list[Any]) -> None:
        kind, channel, message = push
        if kind == b"smessage" or channel == BROKEN:
            super()._pushed(stream, push)
        elif kind == b"message":
            waiting = self._waiting.get(message[:ID].decode())
            if waiting is not None:
                waiting.doubt()
                self._ring(waiting)
        elif channel in stream.listening:  # not left by us: the slot has left that node
            del stream.listening[channel]
            self._lost(stream)

    async def close(self) -> None:
        self._closed = True
        await self._links.close()
        await self._slow_links.close()

    def forked(self) -> None:
        for links in (self._links, self._slow_links):
            links.forked()
        self._gathered.forked()
        self._forget_claims()
