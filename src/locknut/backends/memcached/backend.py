"""The memcached engine behind the core's port: the verbs, the same in both colours.

An acquire of a lock that this process has used lately is one round trip, and so is a release. Where
a CAS id is unknown or refused, one looks first. Nobody is woken: a waiter asks again after a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from locknut.backends.memcached import item_dump, recipe
from locknut.backends.memcached.cache_port import Server
from locknut.backends.memcached.handles import Handle, Handles, Instance
from locknut.backends.memcached.item_keys import key_of
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
from locknut.drivers.memcached.server_identity import VERSION, Greeted, OtherInstance
from locknut.errors import BackendError, BackendUnavailable

CAPABILITIES: Final = frozenset({Capability.FENCING, Capability.DETACHING, Capability.LEASE})
PACE: Final = 0.05
"""Seconds between two looks of a waiter; there is one for each name in a process."""
CONFLICTS: Final = 50
"""Each means that somebody else changed the item first."""
_new_tuple: Final = tuple.__new__
"""Half the price of `Handle(...)` and `Granted(...)`, and every acquire makes one of each."""


class MemcachedBackend(BaseBackend):
    """One client's door to one memcached."""

    name = "memcached"
    capabilities = CAPABILITIES
    default_ttl: float | None = 30.0
    min_ttl = 3.0
    max_ttl = 30 * 86400.0
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
        known = self._handles.free.pop(claim.key, None)
        if known is not None:
            cas, instance, _ = known
            clock = self._server.clocks.shows(instance, self._runtime.now())
            if clock is None:
                clock = await self._look_at_clock(instance)
            packed = recipe.claim_known(claim, cas, clock)  # if long, look first whether it fits
            taken = self._server.change(packed, instance) if len(packed) <= recipe.SMALL else 0
            if not isinstance(taken, int):
                taken = await taken
            if taken:  # as `_granted`, in place
                raw = instance[0] * recipe.STEPS + taken
                self._handles.held[claim.id] = _new_tuple(Handle, (taken, instance, raw))
                return _new_tuple(Granted, (raw, None, None, None))
        return await self._attempt_by_look(claim)

    async def _attempt_by_look(self, claim: Claim) -> Answer:
        key = key_of(claim.key)
        for _ in range(CONFLICTS):
            item, server = await self._look_or_make(key)
            if (wait := self._too_young(server)) > 0:
                return Busy(min(wait, 1.0), queued=False)
            handle = Handle(item.cas, server.instance, item.number(server))
            if item.claim_id == claim.id:
                return await self._again(claim, key, item, handle)
            if item.claim_id:
                return self._busy()
            value = recipe.checked(key, recipe.claimed(claim), server)
            taken = await self._replace(key, handle, value, claim.ttl)
            if taken is not None:
                return self._granted(claim, taken.cas, taken.instance)
        raise self._restless(claim.key)

    def _too_young(self, server: Greeted) -> float:
        """Seconds for which it gives no lock out: its start is known to the second only, and what
        it held before, it has forgotten.
        """
        return self._delay - server.age(self._runtime.now())

    def _granted(self, claim: Claim, cas: int, instance: Instance) -> Granted:
        raw = recipe.raw_of(instance[0], cas)
        self._handles.held[claim.id] = Handle(cas, instance, raw)
        return Granted(raw)

    def _busy(self) -> Busy:
        return Busy(PACE * (0.5 + self._runtime.random()), queued=False)

    async def _again(self, claim: Claim, key: bytes, item: Item, handle: Handle) -> Answer:
        """Its own grant, whose answer was lost: the full ttl again, and the same number (S8)."""
        if item.barred is None:
            value = recipe.claimed(claim, handle.raw)
            renewed = await self._replace(key, handle, value, claim.ttl)
            if renewed is None:
                return self._busy()  # it has just run out, or was broken
            self._handles.held[claim.id] = renewed
        return Granted(handle.raw)

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        answers: dict[str, Renewed] = {}
        for instance, known in self._by_instance(claims).items():
            clock = await self._clock(instance)
            packed = [recipe.renew(claim, handle.cas, handle.raw, clock) for claim, handle in known]
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
                    self._handles.held[claim.id] = handle._replace(cas=reply.cas)
                    answers[claim.id] = Renewal.HELD
        for claim in claims:
            if claim.id not in answers:
                answers[claim.id] = await self._renew_by_look(claim)
        return [answers[claim.id] for claim in claims]

    def _by_instance(self, claims: Sequence[Claim]) -> dict[Instance, list[tuple[Claim, Handle]]]:
        found: dict[Instance, list[tuple[Claim, Handle]]] = {}
        for claim in claims:
            handle = self._handles.held.get(claim.id)
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
            renewed = await self._replace(key, handle, value, claim.ttl)
            if renewed is not None:
                self._handles.held[claim.id] = renewed
                return Renewal.HELD
        return Renewal.UNKNOWN

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        known = self._handles.held.pop(claim.id, None)
        if known is not None and not outcome_unknown:
            cas, instance, _ = known
            freed = self._server.change(recipe.free_known(claim.key, cas), instance)
            if not isinstance(freed, int):
                freed = await freed
            if freed:
                if self._server.evicts:  # or else look first: see `recipe`
                    self._handles.freed(claim.key, _new_tuple(Handle, (freed, instance, 0)))
                return True
        return await self._release_by_look(claim, outcome_unknown=outcome_unknown)

    async def _release_by_look(self, claim: Claim, *, outcome_unknown: bool) -> bool:
        key = key_of(claim.key)
        for _ in range(CONFLICTS):
            item, server = await self._look(key)
            if item is None:
                return False
            handle = Handle(item.cas, server.instance)
            if item.claim_id == claim.id or (outcome_unknown and not item.claim_id):
                # Ours to free. Or free, and changed all the same: a late sending may name its id
                # (L3).
                freed = await self._free(key, handle)
                if freed is not None:
                    if self._too_young(server) <= 0 and server.evicts:  # it is not looked at again
                        self._handles.freed(claim.key, freed)
                    return bool(item.claim_id)
            elif outcome_unknown and item.barred is not None:
                recipe.checked(key, recipe.kept(item, claim.id), server)
                if await self._bar(claim, key, item, handle):
                    return False
            else:
                return False
        raise self._restless(claim.key)

    async def _bar(self, claim: Claim, key: bytes, item: Item, handle: Handle) -> bool:
        """Whether this claim can surely not attach the detached hold any more."""
        value = recipe.kept(item, claim.id)
        return await self._change(key, handle, value, item.end) is not None

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
            end = recipe.end_of(claim.ttl, await self._clock(handle.instance))
            value = recipe.checked(key, recipe.claimed(claim, handle.raw, barred, end), server)
            put = await self._change(key, handle, value, end)
            if put is not None:
                self._handles.doubt(claim.id)
                if barred is None:
                    self._handles.held[claim.id] = put
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
            if await self._free(key_of(key), handle) is not None:
                return LockInfo(key, (item.holder(server),))
        raise self._restless(key)

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await self.inspect_all("")
        item, server = await self._look(key_of(key))
        return [LockInfo(key, (item.holder(server),))] if item and item.claim_id else []

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return await item_dump.held(self._server, prefix)

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
        (reply,), server = await self._server.ask([recipe.look_or_make(key)])
        item = recipe.read(reply)
        if item is None:
            message = "the memcached is full and does not evict: give it more memory"
            raise BackendError(message, key=key.decode(), backend=self.name)
        return item, server

    async def _replace(
        self, key: bytes, handle: Handle, value: bytes, ttl: float | None
    ) -> Handle | None:
        """What is known of the new item; None if the old one is not there any more."""
        clock = await self._clock(handle.instance)
        return await self._change(key, handle, value, recipe.end_of(ttl, clock))

    async def _clock(self, instance: Instance) -> float:
        """What the clock of that instance shows; 0 if it is gone: nothing is sent to another."""
        shown = self._server.clocks.shows(instance, self._runtime.now())
        return await self._look_at_clock(instance) if shown is None else shown

    async def _look_at_clock(self, instance: Instance) -> float:
        await self._server.look_at_clock()
        return self._server.clocks.shows(instance, self._runtime.now()) or 0.0

    async def _free(self, key: bytes, handle: Handle) -> Handle | None:
        """The same for an item that says that nobody holds the lock."""
        return await self._change(key, handle, recipe.FREE, recipe.FREE_FOR)

    async def _change(self, key: bytes, handle: Handle, value: bytes, end: int) -> Handle | None:
        cas = self._server.change(recipe.replace(key, handle.cas, value, end), handle.instance)
        if not isinstance(cas, int):
            cas = await cas
        return Handle(cas, handle.instance, handle.raw) if cas else None

    def _restless(self, key: str) -> BackendUnavailable:
        message = "the lock's item changed again and again while it was to be changed; try again"
        return BackendUnavailable(message, key=key, backend=self.name)
