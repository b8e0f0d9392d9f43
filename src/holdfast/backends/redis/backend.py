"""The Redis engine behind the core's port: the verbs, the same in both colours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

from hiredis import ReplyError

from holdfast.backends.redis import naming, recipe, wire
from holdfast.backends.redis.recipe import Recipe
from holdfast.backends.redis.scripts import (
    ACQUIRE,
    ADOPT,
    DOWNGRADE,
    GATHER,
    INSPECT,
    RELEASE,
    RENEW,
    Script,
)
from holdfast.backends.redis.waiting import Waiting, Watch
from holdfast.core.ports import Signal
from holdfast.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Granted,
    LockInfo,
    Renewal,
)
from holdfast.errors import BackendError
from holdfast.runtimes.clock import now

CAPABILITIES: Final = frozenset(
    {
        Capability.FENCING,
        Capability.FAIR,
        Capability.SHARED,
        Capability.PERMITS,
        Capability.WAKE_UP,
        Capability.LEASE,
    }
)
_BATCH: Final = 500
SendMany = Callable[[Sequence[bytes]], Coroutine[Any, Any, list[Any]]]


class RedisBackend(ABC):
    """All verbs are one round trip. A colour adds how to send, and how to be told of a grant."""

    name = "redis"
    capabilities = CAPABILITIES
    default_ttl: float | None = recipe.DEFAULT_TTL
    min_ttl = 0.1
    max_ttl = 30 * 86400.0
    heartbeat: float | None = None

    def __init__(self) -> None:
        self._recipe = Recipe()
        self._waiting: dict[str, Waiting] = {}
        """Claims that stand in line, by id: from the answer "not yet" to the grant or release."""

    @abstractmethod
    async def _ask(self, script: Script, packed: bytes) -> Any:
        """One script's answer; what is no number goes through `_understood`."""

    @abstractmethod
    async def _send_many(self, packed: Sequence[bytes]) -> list[Any]:
        """Several commands in one round trip."""

    @abstractmethod
    def _reply_to(self, waiting: Waiting | None) -> bytes:
        """Where the server shall tell of a grant, packed."""

    @abstractmethod
    def _refused(self, reply: ReplyError) -> BackendError:
        """The error to raise. Perhaps it was the wrong server that was asked: then it is left."""

    def _era(self, packed: bytes) -> object:  # noqa: ARG002 -- for a colour with several connections
        """To which server this would be sent now: see `Pool.era`."""
        return None

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        waiting = self._waiting.get(claim.id) if self._waiting else None
        if waiting is not None and (known := waiting.answer()) is not None:
            if isinstance(known, Granted):
                del self._waiting[claim.id]
            return known
        sent = now()
        packed = self._recipe.acquire(claim, self._reply_to(waiting))
        era = self._era(packed)
        reply = await self._ask(ACQUIRE, packed)
        if type(reply) is int:
            if waiting is not None:
                self._waiting.pop(claim.id, None)
            return Granted(reply)
        retry_ms, last_raw = reply
        if waiting is None:
            waiting = self._waiting[claim.id] = Waiting(claim)
        waiting.not_yet(sent, last_raw, retry_ms / 1000, era)
        return Busy(retry_ms / 1000)

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        try:
            reply = await self._ask(GATHER, self._recipe.gather(claims))
        except BackendError as error:
            if "CROSSSLOT" in str(error):
                return None  # on a cluster no script reaches into two slots
            raise
        return Busy(0.0) if reply == 0 else [Granted(raw) for raw in reply]

    async def release_all(self, claims: Sequence[Claim], *, doubtful: bool = False) -> list[bool]:
        batch = [self._recipe.release(claim, doubtful=doubtful) for claim in claims]
        replies = await self._ask_many(RELEASE, batch)
        for reply in replies:
            if isinstance(reply, ReplyError):
                raise wire.failed(reply)
        return [reply == 1 for reply in replies]

    async def release(self, claim: Claim, *, doubtful: bool = False) -> bool:
        if self._waiting:
            self._waiting.pop(claim.id, None)
        released: int = await self._ask(RELEASE, self._recipe.release(claim, doubtful=doubtful))
        return released == 1

    async def renew(self, claims: Sequence[Claim]) -> list[Renewal]:
        replies: list[Any] = []
        for start in range(0, len(claims), _BATCH):
            batch = [self._recipe.renew(claim) for claim in claims[start : start + _BATCH]]
            replies += await self._ask_many(RENEW, batch)
        return [_renewal(reply) for reply in replies]

    async def downgrade(self, claim: Claim) -> bool:
        kept: int = await self._ask(DOWNGRADE, self._recipe.downgrade(claim))
        return kept == 1

    async def park(self, claim: Claim, ttl: float) -> bool:
        parked: int = await self._ask(RENEW, self._recipe.renew(claim, ttl))
        return parked == 1

    async def adopt(self, parked: Claim, claim: Claim) -> Granted | None:
        raw: int = await self._ask(ADOPT, self._recipe.adopt(parked, claim))
        return Granted(raw) if raw else None

    async def break_hold(self, key: str, raw: int | None) -> LockInfo | None:
        batch = [self._recipe.break_hold(key, raw, permits=permits) for permits in (False, True)]
        holders = [
            holder
            for permits, reply in enumerate(await self._ask_many(INSPECT, batch))
            if (info := self._seen(key, bool(permits), reply)) is not None
            for holder in info.holders
        ]
        return LockInfo(key, tuple(holders)) if holders else None

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        places = [(key, False), (key, True)] if key is not None else await self._all_places()
        found: dict[str, LockInfo] = {}
        for start in range(0, len(places), _BATCH):
            batch = places[start : start + _BATCH]
            packed = [self._recipe.inspect(each, permits=permits) for each, permits in batch]
            replies = await self._ask_many(INSPECT, packed)
            for (each, permits), reply in zip(batch, replies, strict=True):
                if key is None and isinstance(reply, ReplyError):
                    continue  # it only looks like a lock's key
                info = self._seen(each, permits, reply)
                if info is not None:
                    found[each] = recipe.merged(found[each], info) if each in found else info
        return list(found.values())

    async def _servers(self) -> list[SendMany]:
        """Who has keys: this one server, or all the masters of a cluster."""
        return [self._send_many]

    async def _all_places(self) -> list[tuple[str, bool]]:
        """Every lock and semaphore that has a key in this database."""
        places: set[tuple[str, bool]] = set()
        for send_many in await self._servers():
            cursor = b""
            while cursor != b"0":
                packed = wire.pack(b"SCAN", cursor or b"0", b"MATCH", b"*:{*}*", b"COUNT", b"1000")
                (reply,) = await send_many([packed])
                if isinstance(reply, ReplyError):
                    raise self._refused(reply)
                cursor, keys = reply
                places.update(place for each in keys if (place := naming.key_of(each)) is not None)
        return sorted(places)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        waiting = self._waiting.get(claim.id)
        if waiting is None:
            waiting = self._waiting[claim.id] = Waiting(claim)
        return Watch(waiting, self._signal(waiting, signal()))

    @abstractmethod
    def _signal(self, waiting: Waiting, plain: Signal) -> Signal:
        """What a caller in line sleeps on."""

    @abstractmethod
    async def close(self) -> None:
        """Drop connections."""

    @abstractmethod
    def forked(self) -> None:
        """In a forked child: forget the parent's connections, without a word to the server."""

    def listen(self, news: Callable[[str | None, Renewal], None]) -> None:  # noqa: B027
        """There is nothing to tell that `renew` does not."""

    async def _understood(self, script: Script, packed: bytes, reply: Any) -> Any:
        """An answer that may be an error, or tell that the script has to be loaded first."""
        if wire.unscripted(reply):  # nothing was done, so asking again is safe
            _, reply = await self._send_many([wire.pack(b"SCRIPT", b"LOAD", script.text), packed])
        if isinstance(reply, ReplyError):
            raise self._refused(reply)
        return reply

    async def _ask_many(self, script: Script, batch: Sequence[bytes]) -> list[Any]:
        """The answers, errors among them: one wrong key must not spoil its neighbours."""
        if not batch:
            return []
        replies = await self._send_many(batch)
        again = [at for at, reply in enumerate(replies) if wire.unscripted(reply)]
        if again:
            load = wire.pack(b"SCRIPT", b"LOAD", script.text)
            _, *repeated = await self._send_many([load, *(batch[at] for at in again)])
            for at, reply in zip(again, repeated, strict=True):
                replies[at] = reply
        for reply in replies:
            if isinstance(reply, ReplyError):
                self._refused(reply)
        return replies

    def _seen(self, key: str, permits: bool, reply: Any) -> LockInfo | None:
        if isinstance(reply, ReplyError):
            raise self._refused(reply)
        if isinstance(reply, BackendError):
            raise reply
        return recipe.seen(key, permits, reply)


def _renewal(reply: Any) -> Renewal:
    if isinstance(reply, Exception):  # refused, or in a cluster without an answer
        return Renewal.UNKNOWN
    return Renewal.HELD if reply == 1 else Renewal.LOST
