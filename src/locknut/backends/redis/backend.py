"""The Redis engine behind the core's port: the verbs, the same in both colours.

Every verb is one script, and one round trip. `attempt` has three ways to a grant:

1. *At once.* The lock is free, and the answer is the number of the grant.
2. *By a message.* The answer is "not yet", and from that command on the claim stands in line. Later
   somebody's script grants it the lock and tells it: in an inbox that its thread reads by `BLPOP`
   (`inboxes.Inbox`), or by a push on the connection of its loop (`aio.PushDelivery`). The next
   `attempt` finds the message and needs no command (`Attendances.known`). Such a grant counts from
   the last "not yet" (S1).
3. *By a message that is waited for in the same write.* A thread that had to wait for this name the
   last time sends the question and the `BLPOP` behind it together (`Delivery.ask_and_sleep`).

A message may be lost, come too late to be believed, or tell of an older grant. So a claim in line
asks again now and then (`attendance`), and the script then finds the claim's own grant (S8). With
`wait_replicas` a message is never enough: the grant is asked for, and confirmed (S19).

A backend is put together: a `Server` sends (`sync`, `aio`; for a cluster those in `cluster/`), a
`Delivery` brings grants to those who wait (`inboxes`, `aio`), `Attendances` asks for all of them,
`Inspector` looks, and the `Recipe` says what is sent. None of them knows the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from locknut.backends.redis import history_streams, recipe, server_port
from locknut.backends.redis.attendance import Attendances
from locknut.backends.redis.delivery import Delivery
from locknut.backends.redis.inspector import BATCH, Inspector
from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.scripts import ACQUIRE, ATTACH, DOWNGRADE, GATHER, RELEASE, RENEW
from locknut.backends.redis.server_port import Server, ask_many, checked
from locknut.backends.redis.waiting_claims import WaitingClaim
from locknut.core.base import BaseBackend
from locknut.core.findings import Check
from locknut.core.ports import Signal
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Granted,
    History,
    LockInfo,
    Notice,
    Renewal,
)
from locknut.drivers.redis.confirmations import Unconfirmed
from locknut.drivers.redis.endpoints import TimeAndChance

CAPABILITIES: Final = frozenset(
    {
        Capability.FENCING,
        Capability.FAIR,
        Capability.SHARED,
        Capability.PERMITS,
        Capability.OWNERS,
        Capability.DOWNGRADE,
        Capability.DETACHING,
        Capability.WAITERS,
        Capability.WAKE_UP,
        Capability.LEASE,
        Capability.HISTORY,
    }
)
_new_tuple: Final = tuple.__new__
"""Makes a NamedTuple of all its fields in half the time."""


class RedisBackend(BaseBackend):
    """All verbs are one round trip. It has a `Server` to send to, and a `Delivery` by which
    waiting claims learn of their grants: those two know the colour, and whether it is a cluster.
    """

    name = "redis"
    capabilities = CAPABILITIES
    default_ttl: float | None = recipe.DEFAULT_TTL
    min_ttl = 0.1
    max_ttl = 30 * 86400.0
    batches = True
    passes_notes = True
    notices_hang_up = True

    def __init__(
        self, server: Server, delivery: Delivery, recipe: Recipe, clock: TimeAndChance
    ) -> None:
        self._server = server
        self._delivery = delivery
        self._recipe = recipe
        self._now = clock.now
        self._attendances = Attendances(server, recipe, delivery, clock)
        self._inspector = Inspector(server, recipe)
        self._waiting, self._early = delivery.waiting, delivery.early
        self._crowded = delivery.crowded
        self.waits_on_first_attempt = delivery.sleeps_with_question

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: C901  # one path
        waiting = self._waiting.get(claim.id) if self._waiting else None
        if waiting is None:
            # A first question has no patience where somebody listens to the event of a wait
            # (`Client.patience`): a question that sleeps in the server could report that too late.
            if self._crowded and patience > 0.0 and claim.key in self._crowded:
                slept = await self._delivery.ask_and_sleep(claim, patience)
                return await self.attempt(claim, 0.0) if slept is None else slept
        elif (known := await self._attendances.known(waiting)) is not None:
            if type(known) is Granted:
                self._waiting.pop(claim.id, None)
            return known
        sent = self._now()  # before it is sent: what is granted later counts from here
        reply_to = self._delivery.reply_to(waiting) if claim.waits else recipe.NOWHERE
        packed = self._recipe.acquire(claim, reply_to)
        # Before the answer: by then it may be the era of another server.
        era = self._server.era_of(packed)
        if self._server.confirmation is None:
            reply = await self._server.ask(ACQUIRE, packed)
        else:
            reply = await server_port.ask_confirmed(self._server, ACQUIRE, packed, int)
        if type(reply) is int:
            if waiting is not None:
                self._waiting.pop(claim.id, None)
            return _new_tuple(Granted, (reply, None, None, None))
        retry_ms, last_raw = reply
        if not claim.waits:
            return Busy(retry_ms / 1000, queued=False)
        if waiting is None:
            waiting = self._waiting[claim.id] = WaitingClaim(claim)
        waiting.not_yet(sent, last_raw, retry_ms / 1000, era)
        waiting.ask_at = sent + self._attendances.net()
        # On a loop, "not yet" and the grant may be read in one piece, before this task runs.
        if self._early and (early := self._early.pop(claim.id, None)) is not None:
            waiting.take_message(*early)  # found by the next question, which needs no command
        return self._attendances.until_asked(waiting, Busy(retry_ms / 1000))

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        if not self._server.in_reach(claims):
            return None
        reply = await server_port.ask_confirmed(
            self._server, GATHER, self._recipe.gather(claims), list
        )
        return Busy(0.0) if reply == 0 else [Granted(raw) for raw in reply]

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        batch = [self._recipe.release(claim, outcome_unknown=outcome_unknown) for claim in claims]
        replies = await ask_many(self._server, RELEASE, batch)
        return [checked(self._server, reply) == 1 for reply in replies]

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        if self._waiting:
            self._waiting.pop(claim.id, None)
        released: int = await self._server.ask(
            RELEASE, self._recipe.release(claim, outcome_unknown=outcome_unknown)
        )
        if self._early:  # from here on it gets no more messages
            self._early.pop(claim.id, None)
        return released == 1

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        replies: list[object] = []
        for start in range(0, len(claims), BATCH):
            replies += await self._set_time(claims[start : start + BATCH], self._recipe.renew)
        return [Renewal.HELD if reply == 1 else renewal(reply) for reply in replies]

    async def downgrade(self, claim: Claim) -> bool:
        kept: int = await self._server.ask(DOWNGRADE, self._recipe.downgrade(claim))
        return kept == 1

    async def detach(self, claim: Claim, ttl: float) -> bool:
        (reply,) = await self._set_time([claim], partial(self._recipe.detach, ttl=ttl))
        detached: int = checked(self._server, reply)
        return detached == 1

    async def _set_time(self, claims: Sequence[Claim], pack: Callable[..., bytes]) -> list[object]:
        """Renewals, and a second question where the whole lock has to be seen to."""
        batch = [pack(claim) for claim in claims]
        replies = await ask_many(self._server, RENEW, batch, self._server.send_confirmed)
        again = [at for at, reply in enumerate(replies) if _said(reply) == -1]
        if again:
            batch = [pack(claims[at], whole=True) for at in again]
            later = await ask_many(self._server, RENEW, batch, self._server.send_confirmed)
            for at, reply in zip(again, later, strict=True):
                replies[at] = reply
        return replies

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        packed = self._recipe.attach(detached, claim)
        (reply,) = await ask_many(self._server, ATTACH, [packed], self._server.send_confirmed)
        raw = checked(self._server, reply)
        return Granted(raw) if raw else None

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await self._server.ask(ATTACH, self._recipe.undo_attach(claim, detached))

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await self._inspector.inspect_all("")
        return await self._inspector.inspect(key)

    async def inspect_holders(self, key: str) -> list[LockInfo]:
        return await self._inspector.inspect(key, b"holders")

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return await self._inspector.inspect_all(prefix)

    async def write_history(self, stream: str, texts: Sequence[str], keep: int) -> None:
        await history_streams.write(self._server, stream, texts, keep)

    async def read_history(self, stream: str, back: float | None = None) -> History:
        return await history_streams.read(self._server, stream, back)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return await self._inspector.break_hold(key, raw, note)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return self._attendances.watch(claim, signal)

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self._delivery.listen(on_notice)

    def hung_up(self) -> bool:
        return self._server.hung_up()

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        return self._server.scatter(claims)

    async def close(self) -> None:
        self._delivery.close()
        await self._server.close()

    async def server(self) -> str:
        return await server_port.product_of(self._server)

    def checks(self, prefix: str) -> Sequence[Check]:
        return self._server.checks(prefix)

    def dropped(self) -> None:
        self._delivery.close()
        self._server.dropped()

    def forked(self) -> None:
        self._recipe.forked()
        self._delivery.forked()
        self._attendances.forked()
        self._server.forked()


def _said(reply: object) -> object:
    """What the server answered, whether replicas have it or not."""
    return reply.reply if isinstance(reply, Unconfirmed) else reply


def renewal(reply: object) -> Notice:
    said = _said(reply)
    if isinstance(said, bytes):  # lost too, and this is why
        return Broken(said.decode(errors="replace"))
    if said == 0:
        return Renewal.LOST
    if isinstance(reply, Exception):  # refused, not confirmed, or in a cluster without an answer
        return Renewal.UNKNOWN
    return Renewal.HELD if reply == 1 else Renewal.LOST
