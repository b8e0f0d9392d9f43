"""The memcached engine behind the core's port: the verbs, the same in both colours.

An acquire of a lock that this process has used lately is one round trip, and so is a release. Where
a CAS id is unknown or refused, one looks first. Nobody is woken: a waiter asks again after a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from locknut.backends.memcached import recipe
from locknut.backends.memcached.handles import Handle, Handles, Instance
from locknut.backends.memcached.item_keys import dumped, key_of, may_begin
from locknut.backends.memcached.recipe import Item
from locknut.core.base import BaseBackend
from locknut.core.ports import Runtime
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Granted,
    LockInfo,
    Renewal,
    Renewed,
)
from locknut.drivers.memcached.replies import Reply
from locknut.drivers.memcached.server_identity import VERSION, Greeted, OtherInstance
from locknut.errors import BackendUnavailable

CAPABILITIES: Final = frozenset({Capability.FENCING, Capability.DETACHING, Capability.LEASE})
PACE: Final = 0.05
"""Seconds between two looks of a waiter; there is one for each name in a process."""
CONFLICTS: Final = 50
"""Each means that somebody else changed the item first."""
AT_ONCE: Final = 100
"""Items that are looked at in one round trip."""
DAY: Final = 86400.0


class Server(Protocol):
    """A way to the server, in one colour."""

    async def ask(
        self, packed: Sequence[bytes], instance: Instance | None = None
    ) -> tuple[list[Reply], Greeted]: ...

    async def ask_one(self, packed: bytes, instance: Instance) -> Reply: ...

    async def ask_list(self, packed: bytes) -> list[Reply]: ...

    async def close(self) -> None: ...

    def forked(self) -> None: ...

    def dropped(self) -> None: ...


class MemcachedBackend(BaseBackend):
    """One client's door to one memcached."""

    name = "memcached"
    capabilities = CAPABILITIES
    default_ttl: float | None = 30.0
    min_ttl = 3.0
    max_ttl = 30 * DAY - 60  # memcached takes more than 30 days for a date
    passes_notes = True
    no_tombstones = (
        "every change names the CAS id of what it replaces, and a release changes it: whatever was "
        "sent before a release and arrives after it is refused"
    )

    def __init__(self, server: Server, handles: Handles, delay: float, runtime: Runtime):
        self._server = server
        self._handles = handles
        self._delay = delay
        self._runtime = runtime

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- nobody rings
        key = key_of(claim.key)
        value, lifetime = recipe.claimed(claim), recipe.lifetime(claim.ttl)
        handle = self._handles.take_free(key)
        if handle is not None:
            taken = await self._replace(key, handle, value, lifetime)
            if taken is not None:
                return self._granted(claim, taken)
        for _ in range(CONFLICTS):
            item, server = await self._look_or_make(key)
            if (young := self._delay - server.age(self._runtime.now())) > 0:
                # Its start is known to the second only; and what it held before, it has forgotten.
                return Busy(min(young, 1.0), queued=False)
            handle = Handle(item.cas, server.instance, item.number(server))
            if item.claim_id == claim.id:
                return await self._again(claim, key, item, handle)
            if item.claim_id:
                return self._busy()
            taken = await self._replace(key, handle, value, lifetime)
            if taken is not None:
                return self._granted(claim, taken)
        raise self._restless(claim.key)

    def _granted(self, claim: Claim, taken: Handle) -> Granted:
        raw = recipe.raw_of(taken.instance[0], taken.cas)
        self._handles.hold(claim.id, Handle(taken.cas, taken.instance, raw))
        return Granted(raw)

    def _busy(self) -> Busy:
        return Busy(PACE * (0.5 + self._runtime.random()), queued=False)

    async def _again(self, claim: Claim, key: bytes, item: Item, handle: Handle) -> Answer:
        """Its own grant, whose answer was lost: the full ttl again, and the same number (S8)."""
        if item.barred is None:
            value = recipe.claimed(claim, handle.raw)
            renewed = await self._replace(key, handle, value, recipe.lifetime(claim.ttl))
            if renewed is None:
                return self._busy()  # it has just run out, or was broken
            self._handles.hold(claim.id, renewed)
        return Granted(handle.raw)

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        answers: dict[str, Renewed] = {}
        for instance, known in self._by_instance(claims).items():
            packed = [_renewal(claim, handle) for claim, handle in known]
            try:
                replies, _ = await self._server.ask(packed, instance)
            except OtherInstance:
                continue
            except BaseException:
                for claim, _ in known:  # what was done is not known, so neither are their CAS ids
                    self._handles.doubt(claim.id)
                raise
            for (claim, handle), reply in zip(known, replies, strict=True):
                if reply.code == b"HD":
                    self._handles.hold(claim.id, handle._replace(cas=reply.cas))
                    answers[claim.id] = Renewal.HELD
        for claim in claims:
            if claim.id not in answers:
                answers[claim.id] = await self._renew_by_look(claim)
        return [answers[claim.id] for claim in claims]

    def _by_instance(self, claims: Sequence[Claim]) -> dict[Instance, list[tuple[Claim, Handle]]]:
        found: dict[Instance, list[tuple[Claim, Handle]]] = {}
        for claim in claims:
            handle = self._handles.held(claim.id)
            if handle is not None:
                found.setdefault(handle.instance, []).append((claim, handle))
        return found

    async def _renew_by_look(self, claim: Claim) -> Renewed:
        key = key_of(claim.key)
        for _ in range(CONFLICTS):
            item, server = await self._look(key)
            if item is None or item.claim_id != claim.id:
                (reply,), _ = await self._server.ask([recipe.look(recipe.note_key(claim.id))])
                note = reply.data.decode(errors="replace")
                return Broken(note) if note else Renewal.LOST
            if item.barred is not None:
                return Renewal.HELD
            handle = Handle(item.cas, server.instance, item.number(server))
            value = recipe.claimed(claim, handle.raw)
            renewed = await self._replace(key, handle, value, recipe.lifetime(claim.ttl))
            if renewed is not None:
                self._handles.hold(claim.id, renewed)
                return Renewal.HELD
        return Renewal.UNKNOWN

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        key = key_of(claim.key)
        handle = self._handles.held(claim.id)
        self._handles.doubt(claim.id)
        if handle is not None and not outcome_unknown:
            freed = await self._replace(key, handle, recipe.FREE, recipe.FREE_FOR)
            if freed is not None:
                self._handles.free(key, freed)
                return True
        return await self._release_by_look(claim, key, outcome_unknown=outcome_unknown)

    async def _release_by_look(self, claim: Claim, key: bytes, *, outcome_unknown: bool) -> bool:
        for _ in range(CONFLICTS):
            item, server = await self._look(key)
            if item is None:
                return False
            handle = Handle(item.cas, server.instance)
            if item.claim_id == claim.id or (outcome_unknown and not item.claim_id):
                # Ours to free. Or free, and changed all the same: a late sending may name its id
                # (L3).
                freed = await self._replace(key, handle, recipe.FREE, recipe.FREE_FOR)
                if freed is not None:
                    self._handles.free(key, freed)
                    return bool(item.claim_id)
            elif outcome_unknown and item.barred is not None:
                if await self._bar(claim, key, item, handle):
                    return False
            else:
                return False
        raise self._restless(claim.key)

    async def _bar(self, claim: Claim, key: bytes, item: Item, handle: Handle) -> bool:
        """Whether this claim can surely not attach the detached hold any more."""
        value = recipe.kept(item, claim.id)
        return await self._replace(key, handle, value, recipe.lifetime(item.left)) is not None

    async def detach(self, claim: Claim, ttl: float) -> bool:
        detached = claim._replace(ttl=ttl)
        return await self._put({claim.id}, detached, barred=()) is not None

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        """A compare-and-swap: of two that attach, only the first finds the detached claim (S15)."""
        raw = await self._put({detached.id, claim.id}, claim)
        return None if raw is None else Granted(raw)

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        """Also where the attach has not come yet: it must not come any more."""
        self._handles.doubt(claim.id)
        await self._put({claim.id, detached.id}, detached, barred=(claim.id,))

    async def _put(
        self, holders: set[str], claim: Claim, barred: tuple[str, ...] | None = None
    ) -> int | None:
        """This claim in place of whichever of these holds; return the number of the grant."""
        key = key_of(claim.key)
        for _ in range(CONFLICTS):
            item, server = await self._look(key)
            if item is None or item.claim_id not in holders or claim.id in (item.barred or ()):
                return None
            handle = Handle(item.cas, server.instance, item.number(server))
            value = recipe.claimed(claim, handle.raw, barred)
            put = await self._replace(key, handle, value, recipe.lifetime(claim.ttl))
            if put is not None:
                self._handles.doubt(claim.id)
                if barred is None:
                    self._handles.hold(claim.id, put)
                return handle.raw
        raise self._restless(claim.key)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        for _ in range(CONFLICTS):
            item, server = await self._look(key_of(key))
            if item is None or not item.claim_id:
                return None
            if raw is not None and item.number(server) != raw:
                return None
            if note:  # first: the holder may look at any moment from then on
                await self._server.ask([recipe.leave_note(item.claim_id, note)])
            handle = Handle(item.cas, server.instance)
            if await self._replace(key_of(key), handle, recipe.FREE, recipe.FREE_FOR) is not None:
                return LockInfo(key, (item.holder(server),))
        raise self._restless(key)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await self.inspect_all("")
        item, server = await self._look(key_of(key))
        if item is None or not item.claim_id:
            return []
        return [LockInfo(key, (item.holder(server),))]

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        """Every item of the server is listed: there is no other way to find ours."""
        lines = await self._server.ask_list(b"lru_crawler metadump all\r\n")
        every = [dumped(line.code) for line in lines if line.code.startswith(b"key=")]
        keys = [key for key in every if may_begin(key, prefix)]
        found: list[LockInfo] = []
        for start in range(0, len(keys), AT_ONCE):
            looks = [recipe.look(key) for key in keys[start : start + AT_ONCE]]
            replies, server = await self._server.ask(looks)
            found += [
                LockInfo(item.name, (item.holder(server),))
                for item in map(recipe.read, replies)
                if item is not None and item.name and item.name.startswith(prefix)
            ]
        return found

    async def server(self) -> str:
        (reply,), _ = await self._server.ask([VERSION])
        return f"memcached {b' '.join(reply.words).decode(errors='replace')}"

    async def close(self) -> None:
        await self._server.close()

    def forked(self) -> None:
        self._handles.forked()
        self._server.forked()

    def dropped(self) -> None:
        self._server.dropped()

    async def _look(self, key: bytes) -> tuple[Item | None, Greeted]:
        (reply,), server = await self._server.ask([recipe.look(key)])
        return recipe.read(reply), server

    async def _look_or_make(self, key: bytes) -> tuple[Item, Greeted]:
        for _ in range(CONFLICTS):
            (_, reply), server = await self._server.ask([recipe.make_free(key), recipe.look(key)])
            item = recipe.read(reply)
            if item is not None:
                return item, server
        raise self._restless(key.decode())  # a server that keeps nothing

    async def _replace(
        self, key: bytes, handle: Handle, value: bytes, lifetime: int
    ) -> Handle | None:
        """What is known of the new item; None if the old one is not there any more."""
        packed = recipe.replace(key, handle.cas, value, lifetime)
        try:
            reply = await self._server.ask_one(packed, handle.instance)
        except OtherInstance:
            return None
        return Handle(reply.cas, handle.instance, handle.raw) if reply.code == b"HD" else None

    def _restless(self, key: str) -> BackendUnavailable:
        message = "the lock's item changed again and again while it was to be changed; try again"
        return BackendUnavailable(message, key=key, backend=self.name)


def _renewal(claim: Claim, handle: Handle) -> bytes:
    value = recipe.claimed(claim, handle.raw)
    return recipe.replace(key_of(claim.key), handle.cas, value, recipe.lifetime(claim.ttl))
