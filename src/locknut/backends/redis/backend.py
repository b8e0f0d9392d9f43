"""The Redis engine behind the core's port: the verbs, the same in both colours.

Every verb is one script, and one round trip. `attempt` has three ways to a grant:

1. *At once.* The lock is free, and the answer is the number of the grant.
2. *By a message.* The answer is "not yet", and from that command on the claim stands in line. Later
   somebody's script grants it the lock and tells it: in an inbox that its thread reads by `BLPOP`
   (`sync.Inbox`), or by a push on the connection of its loop (`aio`). The next `attempt` finds the
   message and needs no command (`_known`). Such a grant counts from the last "not yet" (S1).
3. *By a message that is waited for in the same write.* A thread that had to wait for this name the
   last time sends the question and the `BLPOP` behind it together (`_ask_and_sleep`).

A message may be lost, come too late to be believed, or tell of an older grant. So a claim in line
asks again now and then (`attendance`), and the script then finds the claim's own grant (S8). With
`wait_replicas` a message is never enough: the grant is asked for, and confirmed (S19).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from hiredis import ReplyError

from locknut.backends.redis import recipe
from locknut.backends.redis.attendance import Attending
from locknut.backends.redis.inspector import BATCH, Looking, SendMany
from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.scripts import ACQUIRE, ATTACH, DOWNGRADE, GATHER, RELEASE, RENEW
from locknut.backends.redis.waiting_claims import WaitingClaim
from locknut.core.base import BaseBackend
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Granted,
    Notice,
    Renewal,
)
from locknut.drivers.redis import wire
from locknut.drivers.redis.confirmations import Confirmation, Unconfirmed
from locknut.drivers.redis.endpoints import Clock
from locknut.drivers.redis.lua_scripts import Script
from locknut.drivers.redis.settings import Settings
from locknut.errors import BackendError

CAPABILITIES: Final = frozenset(
    {
        Capability.FENCING,
        Capability.FAIR,
        Capability.SHARED,
        Capability.PERMITS,
        Capability.OWNERS,
        Capability.DOWNGRADE,
        Capability.DETACHING,
        Capability.WAKE_UP,
        Capability.LEASE,
    }
)
_new_tuple: Final = tuple.__new__
"""Makes a NamedTuple of all its fields in half the time."""


class RedisBackend(Looking, Attending, BaseBackend):
    """All verbs are one round trip. A colour adds how to send, and how to be told of a grant."""

    name = "redis"
    capabilities = CAPABILITIES
    default_ttl: float | None = recipe.DEFAULT_TTL
    min_ttl = 0.1
    max_ttl = 30 * 86400.0
    batches = True
    passes_notes = True

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock, self._now = clock, clock.now
        self._recipe = Recipe()
        self._confirmation = Confirmation(settings) if settings.replicas else None
        self._waiting = {}
        self._early: dict[str, tuple[bytes, float]] = {}
        """Grants that were read in one piece with the answer "not yet", whose asker has yet to run:
        the message, and from when it counts.
        """
        self._attended = {}
        self._crowded: set[str] = set()
        """Locks that had to be waited for when they were asked for last, where that is of use."""

    @abstractmethod
    async def _ask(self, script: Script, packed: bytes) -> Any:
        """One script's answer; what is no number goes through `_understood`."""

    @abstractmethod
    async def _send_many(self, packed: Sequence[bytes]) -> list[object]:
        """Several commands in one round trip.

        An answer is a `ReplyError` where the server said no, and a `BackendError` where nobody said
        anything. They are plain objects, so that none is used before `_checked` has looked at it.
        """

    async def _send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        """The same; what too few replicas have confirmed is `Unconfirmed`."""
        confirmation = self._confirmation
        if confirmation is None:
            return await self._send_many(packed)
        return confirmation.judge(await self._send_many([*packed, confirmation.question]))

    @abstractmethod
    def _reply_to(self, waiting: WaitingClaim | None) -> bytes:
        """Where the server shall tell of a grant, packed."""

    @abstractmethod
    def _refused(self, reply: ReplyError) -> BackendError:
        """The error to raise. Perhaps it was the wrong server that was asked: then it is left."""

    async def _ask_and_sleep(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- just asks
        """The first attempt for a lock that is crowded; who cannot sleep with it just asks."""
        return await self.attempt(claim, 0.0)

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: C901  # one path
        waiting = self._waiting.get(claim.id) if self._waiting else None
        if waiting is None:
            # A first question has no patience where somebody wants to be told that it waits
            # (`Client.patience`): who sleeps with the question could tell that too late.
            if self._crowded and patience > 0.0 and claim.key in self._crowded:
                return await self._ask_and_sleep(claim, patience)
        elif (known := await self._known(waiting)) is not None:
            if type(known) is Granted:
                self._waiting.pop(claim.id, None)
            return known
        sent = self._now()  # before it is sent: what is granted later counts from here
        reply_to = self._reply_to(waiting) if claim.waits else recipe.NOWHERE
        packed = self._recipe.acquire(claim, reply_to)
        era = self._era(packed)  # before the answer: by then it may be that of another server
        if self._confirmation is None:
            reply = await self._ask(ACQUIRE, packed)
        else:
            reply = await self._ask_confirmed(ACQUIRE, packed, int)
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
        waiting.ask_at = sent + self._net()
        # On a loop, "not yet" and the grant may be read in one piece, before this task runs.
        if self._early and (early := self._early.pop(claim.id, None)) is not None:
            waiting.told(*early)  # found by the next question, which needs no command
        return self._until_asked(waiting, Busy(retry_ms / 1000))

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        if not self._in_reach(claims):
            return None
        reply = await self._ask_confirmed(GATHER, self._recipe.gather(claims), list)
        return Busy(0.0) if reply == 0 else [Granted(raw) for raw in reply]

    def _in_reach(self, claims: Sequence[Claim]) -> bool:  # noqa: ARG002 -- a cluster asks
        """Whether one script can see to all of them."""
        return True

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        batch = [self._recipe.release(claim, outcome_unknown=outcome_unknown) for claim in claims]
        replies = await self._ask_many(RELEASE, batch)
        return [self._checked(reply) == 1 for reply in replies]

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        if self._waiting:
            self._waiting.pop(claim.id, None)
        released: int = await self._ask(
            RELEASE, self._recipe.release(claim, outcome_unknown=outcome_unknown)
        )
        if self._early:  # from here on nothing more is told to it
            self._early.pop(claim.id, None)
        return released == 1

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        replies: list[object] = []
        for start in range(0, len(claims), BATCH):
            replies += await self._set_time(claims[start : start + BATCH], self._recipe.renew)
        return [Renewal.HELD if reply == 1 else _renewal(reply) for reply in replies]

    async def downgrade(self, claim: Claim) -> bool:
        kept: int = await self._ask(DOWNGRADE, self._recipe.downgrade(claim))
        return kept == 1

    async def detach(self, claim: Claim, ttl: float) -> bool:
        (reply,) = await self._set_time([claim], partial(self._recipe.detach, ttl=ttl))
        detached: int = self._checked(reply)
        return detached == 1

    async def _set_time(self, claims: Sequence[Claim], pack: Callable[..., bytes]) -> list[object]:
        """Renewals, and a second question where the whole lock has to be seen to."""
        batch = [pack(claim) for claim in claims]
        replies = await self._ask_many(RENEW, batch, self._send_confirmed)
        again = [at for at, reply in enumerate(replies) if _said(reply) == -1]
        if again:
            batch = [pack(claims[at], whole=True) for at in again]
            later = await self._ask_many(RENEW, batch, self._send_confirmed)
            for at, reply in zip(again, later, strict=True):
                replies[at] = reply
        return replies

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        packed = self._recipe.attach(detached, claim)
        (reply,) = await self._ask_many(ATTACH, [packed], self._send_confirmed)
        raw = self._checked(reply)
        return Granted(raw) if raw else None

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await self._ask(ATTACH, self._recipe.undo_attach(claim, detached))

    @abstractmethod
    async def close(self) -> None:
        """Drop connections."""

    @abstractmethod
    def forked(self) -> None:
        """In a forked child: forget the parent's connections, without a word to the server."""

    @abstractmethod
    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        """Have it told what is learned of holds without asking for it."""

    async def _understood(self, script: Script, packed: bytes, reply: object) -> Any:
        """An answer that may be an error, or tell that the script has to be loaded first."""
        if wire.unscripted(reply):  # nothing was done, so asking again is safe
            load = wire.pack(b"SCRIPT", b"LOAD", script.text)
            loaded, reply = await self._send_many([load, packed])
            reply = loaded if isinstance(loaded, ReplyError) else reply
        return self._checked(reply)

    def _checked(self, reply: object) -> Any:
        """One of several answers, or the error that it is: refused, or not answered at all."""
        if isinstance(reply, ReplyError):
            raise self._refused(reply)
        if isinstance(reply, BackendError):
            raise reply
        return reply

    async def _ask_confirmed(self, script: Script, packed: bytes, granted: type) -> Any:
        """As `_ask`; a grant that too few replicas have got is as good as unanswered.

        It is not given back here: the core asks again with the same claim, which finds its own
        grant and has it confirmed, or releases the claim for good. A claim that was released must
        never be asked for again: a late release would end the new hold (S7).
        """
        (reply,) = await self._ask_many(script, [packed], self._send_confirmed)
        if not isinstance(reply, Unconfirmed):
            return self._checked(reply)
        if not isinstance(reply.reply, granted) or not reply.reply:
            return reply.reply  # "not yet" is all the same to the replicas
        raise reply

    async def _ask_many(
        self, script: Script, batch: Sequence[bytes], send: SendMany | None = None
    ) -> list[object]:
        """The answers, errors among them: one wrong key must not spoil its neighbours."""
        if not batch:
            return []
        send = send or self._send_many
        replies = await send(batch)
        if all(type(reply) is int for reply in replies):
            return replies
        again = [at for at, reply in enumerate(replies) if wire.unscripted(reply)]
        if again:
            load = wire.pack(b"SCRIPT", b"LOAD", script.text)
            loaded, *repeated = await send([load, *(batch[at] for at in again)])
            for at, reply in zip(again, repeated, strict=True):
                replies[at] = loaded if isinstance(loaded, ReplyError) else reply
        for reply in replies:
            if isinstance(reply, ReplyError):
                self._refused(reply)
        return replies


def _said(reply: object) -> object:
    """What the server answered, whether replicas have it or not."""
    return reply.reply if isinstance(reply, Unconfirmed) else reply


def _renewal(reply: object) -> Notice:
    said = _said(reply)
    if isinstance(said, bytes):  # lost too, and this is why
        return Broken(said.decode(errors="replace"))
    if said == 0:
        return Renewal.LOST
    if isinstance(reply, Exception):  # refused, not confirmed, or in a cluster without an answer
        return Renewal.UNKNOWN
    return Renewal.HELD if reply == 1 else Renewal.LOST
