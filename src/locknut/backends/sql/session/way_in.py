"""From a claim that has a session to its hold: through the gate, into the row, or to a wait."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from locknut.backends.sql import lock_state, recipe
from locknut.backends.sql.hold_records import number_of
from locknut.backends.sql.lock_state import LockState, Place
from locknut.backends.sql.obstacles import Obstacles
from locknut.backends.sql.row_changes import RowChanges, key_of
from locknut.backends.sql.session.claim_sessions import ClaimSession
from locknut.backends.sql.session.lock_owners import LockOwners
from locknut.backends.sql.session.session_port import gate_of, lock_of
from locknut.backends.sql.table_port import US, Seen, Table, Take
from locknut.core.ports import Runtime
from locknut.core.values import Answer, Busy, Granted, Mode
from locknut.errors import BackendUnavailable

NET: Final = 5.0
"""Seconds after which one that waits looks at the row by itself."""
LOOK: Final = 1.0
"""The same where the row has no holder, though a session has the lock."""
OVERDUE: Final = 5.0
"""Seconds after which the end of a wait is missing that the server should have ended by itself."""


class WayIn:
    """One client's."""

    def __init__(
        self,
        rows: RowChanges,
        owners: LockOwners,
        runtime: Runtime,
        table: Table,
        obstacles: Callable[[], Obstacles],
    ):
        self._rows = rows
        self._owners = owners
        self._where = owners.place
        self._runtime = runtime
        self._table = table
        self._obstacles = obstacles
        """Such as clients in lease mode that died in line; those of this mode stand in none."""
        self.client = ""

    async def go_on(self, used: ClaimSession) -> Answer:
        """As far as it goes without waiting."""
        if used.wait is not None:
            got = await used.session.waited()
            if got is None:
                return await self._still_waits(used, used.wait)
            await self._has_waited(used, used.wait, got=got)
        if used.holds and not used.at_gate:
            raw, _ = await self._get_in(used, None)
            if raw is not None:
                return Granted(raw)
            used.holds = False
        return await self._come_in(used)

    async def _has_waited(self, used: ClaimSession, lock: bytes, *, got: bool) -> None:
        used.wait, used.unowned = None, False
        if lock == gate_of(self._where, used.claim):
            used.at_gate = got
        elif got:  # a reader's: it is gone, and nobody else needs its lock
            await used.session.free(lock)

    async def _come_in(self, used: ClaimSession) -> Answer:
        """Through the gate, and into the row."""
        wanted = self._wanted(used)
        if used.at_gate:
            if used.claim.mode is not Mode.EXCLUSIVE:
                await self._keep_own(used)
            seen = await used.session.take(wanted)
        else:
            seen = await self._enter(used, wanted)
        if not used.at_gate:
            return await self._wait_at_gate(used, seen)
        raw = None if seen is None else number_of(seen, used.claim.id)
        while raw is None:
            raw, state = await self._get_in(used, seen)
            if raw is None and (busy := await self._wait_behind(used, state)) is not None:
                return busy
            seen = None
        used.holds = True
        if used.claim.mode is not Mode.EXCLUSIVE:
            await used.session.free(gate_of(self._where, used.claim))
            used.at_gate = False
        return Granted(raw)

    async def _keep_own(self, used: ClaimSession) -> None:
        """A reader's own lock, which an earlier session of the claim may still have had when this
        one came. If the server takes that for alive, nobody else would end it.
        """
        own = lock_of(self._where, used.claim)
        if not await used.session.keep(own):
            await self._owners.end_owner(own)
            if not await used.session.keep(own):
                raise BackendUnavailable("an earlier session has the lock", key=used.claim.key)

    async def _enter(self, used: ClaimSession, wanted: Take) -> Seen | None:
        """If a session has the gate whose hold has run out, or never came, it is ended."""
        claim, session = used.claim, used.session
        gate = gate_of(self._where, claim)
        own = None if claim.mode is Mode.EXCLUSIVE else lock_of(self._where, claim)
        used.at_gate, seen = await session.enter(gate, own, wanted)
        if not used.at_gate and seen is not None:
            state = lock_state.read(claim.key, seen.row, seen.now)
            if not state.holders and (
                await self._owners.end(state.ended) or await self._owners.end_stalled(gate, state)
            ):
                used.at_gate, seen = await session.enter(gate, own, wanted)
        return seen

    async def _get_in(self, used: ClaimSession, seen: Seen | None) -> tuple[int | None, LockState]:
        """What one statement could not decide: beside readers, or behind a tombstone."""
        claim = used.claim
        if seen is None:
            (row,), now = await self._table.read([key_of(claim)])
            seen = Seen(row, now)
        removed = await self._obstacles().remove(
            claim, lock_state.read(claim.key, seen.row, seen.now)
        )
        enter = recipe.enter(claim, self._place(used))
        granted, state = await self._rows.change(claim, enter, None if removed else seen)
        return None if granted is None else granted.raw, state

    async def _wait_at_gate(self, used: ClaimSession, seen: Seen | None) -> Busy:
        if used.claim.waits:
            await self._wait_for(used, gate_of(self._where, used.claim))
        seen = seen or Seen(None, 0)
        return self._busy(used, lock_state.read(used.claim.key, seen.row, seen.now))

    async def _wait_behind(self, used: ClaimSession, state: LockState) -> Busy | None:
        """The gate is ours, and the row is not. Behind readers we wait for one of them. Behind one
        that has no session any more, or never had any, we wait until its time is over. None: they
        have gone in good order meanwhile.
        """
        if used.claim.id in state.graves:
            return Busy(NET, queued=False)
        reader = await self._owners.living_reader(state)
        if reader is None:
            _, now = await self._rows.change(used.claim, recipe.nothing)
            return self._busy(used, now) if now.holders.keys() == state.holders.keys() else None
        if used.claim.waits:
            await self._wait_for(used, reader)
        return self._busy(used, state)

    async def _wait_for(self, used: ClaimSession, lock: bytes) -> None:
        await used.session.wait(lock)
        used.wait = lock
        used.wait_ends = self._runtime.now() + used.session.longest_wait + OVERDUE

    def _busy(self, used: ClaimSession, state: LockState) -> Busy:
        """When to look without having been rung: a hold may run out that is not renewed."""
        pause = LOOK
        if state.holders:
            ends = min(held.expires for held in state.holders.values())
            pause = min(NET, max(0.01, (ends - state.now) / US))
        used.look_at = self._runtime.now() + pause
        return Busy(pause)

    async def _still_waits(self, used: ClaimSession, lock: bytes) -> Busy:
        """Nothing has arrived: see whether whoever has the lock is still the holder by the row, and
        whether the server still knows of our wait.
        """
        now = self._runtime.now()
        if now < used.look_at:
            return Busy(used.look_at - now)
        if now >= used.wait_ends:
            raise self._forgotten(used, "has not ended our wait in time")
        _, state = await self._rows.change(used.claim, recipe.nothing)
        if state.holders:
            used.unowned = False
        elif await self._owners.end(state.ended):
            pass  # it is gone, and our turn comes
        elif not await self._owners.knows_of(used, lock, state):
            raise self._forgotten(used, "has given the lock to nobody, though we wait for it")
        return self._busy(used, state)

    def _forgotten(self, used: ClaimSession, why: str) -> BackendUnavailable:
        """Our connection is dead, and nobody has told us: a firewall drops the news, too."""
        return BackendUnavailable(f"the server {why}; asking anew", key=used.claim.key)

    def _wanted(self, used: ClaimSession) -> Take:
        claim = used.claim
        facts = lock_state.facts_of(claim, self.client, used.session.number)
        ttl = lock_state.microseconds(claim)
        stamp, mode = self._rows.stamp(), lock_state.mode_of(claim)
        return Take(key_of(claim), claim.id, ttl, facts, queue=False, stamp=stamp, mode=mode)

    def _place(self, used: ClaimSession) -> Place:
        return replace(lock_state.here(self.client, os.getpid()), session=used.session.number)
