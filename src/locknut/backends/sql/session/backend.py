"""Session mode behind the core's port: who waits, waits at the server; the row says who holds.

A claim takes the gate of its name on a session of its own, and then the row. The server frees the
gate the moment that session ends, though its holder may still be at work and not know it. So the
next one, which has the gate then, finds the row still held, and waits until that hold has run out
or was given up: nobody is granted what another one may still believe in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from locknut.backends.sql import recipe
from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.session.claim_sessions import ClaimSession, ClaimSessions
from locknut.backends.sql.session.lock_owners import LockOwners
from locknut.backends.sql.session.session_port import LockSessions, gate_of, lock_of
from locknut.backends.sql.session.way_in import LOOK, WayIn
from locknut.backends.sql.table_port import Table
from locknut.backends.sql.unrung import Unrung
from locknut.core.ports import Runtime, Signal
from locknut.core.values import (
    Answer,
    Broken,
    Busy,
    Capability,
    Claim,
    Granted,
    LockInfo,
    Mode,
    Notice,
    Renewal,
)
from locknut.errors import BackendUnavailable

CAPABILITIES: Final = frozenset(
    {
        Capability.DOWNGRADE,
        Capability.FENCING,
        Capability.LEASE,
        Capability.NO_EVICTION,
        Capability.SESSION,
        Capability.SHARED,
        Capability.WAKE_UP,
    }
)
TTL: Final = 10.0
STOP: Final = 0.1
"""Seconds after which a session is told once more to stop waiting: it heard nothing if it had not
begun."""
STOPS: Final = 20


class SessionBackend(SqlBackend):
    """One client's door to a table of locks, and to sessions of the same database."""

    default_ttl: float | None = TTL
    batches = False
    notices_hang_up = True

    def __init__(
        self,
        name: str,
        table: Table,
        sessions: LockSessions,
        claims: ClaimSessions,
        runtime: Runtime,
    ):
        super().__init__(name, table, Unrung(runtime), runtime)
        self.capabilities = CAPABILITIES
        self._sessions = sessions
        self._claims = claims
        self._owners = LockOwners(sessions, runtime)
        self._way_in = WayIn(self._rows, self._owners, runtime, table, self._obstacles)
        self._way_in.client = self._client
        self.inside = self._inside
        self.hung_up = claims.hung_up  # type: ignore[method-assign]

    def _inside(self) -> bool:
        return self._table.inside() or self._sessions.inside() or self._claims.guard.inside()

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        used = self._claims.use(claim.id)
        if used is None:
            if self._claims.get(claim.id) is not None:
                return Busy(LOOK)  # an earlier question of this claim is still being asked
            session = await self._sessions.open()
            try:
                used = self._claims.add(claim, session, self._sessions)
            except BaseException:  # an interrupt: nobody else knows of it
                session.drop()
                raise
        try:
            answer = await self._way_in.go_on(used)
            if isinstance(answer, Granted) or (claim.waits and answer.queued):
                self._claims.done(used)
                return answer
            await self._leave(used)
        except BaseException:
            self._claims.drop(used)  # what it has taken is found again, by the claim's id
            raise
        return Busy(answer.retry_in, queued=False)

    async def _leave(self, used: ClaimSession) -> None:
        """The claim needs no session any more, and the session is in order."""
        self._claims.forget(used)
        if used.at_gate or used.claim.mode is not Mode.EXCLUSIVE:
            await used.session.free(None)
        used.session.back()

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        """Only what still has its session is extended. A hold without one must run out by itself:
        whoever has its lock next waits for that.
        """
        kept = await self._with_sessions(claims)
        extended = await super().renew(kept) if kept else []
        answers = dict(zip((claim.id for claim in kept), extended, strict=True))
        for claim in claims:
            if claim.id not in answers:
                answers[claim.id] = await self._lost(claim)
        return [answers[claim.id] for claim in claims]

    async def _with_sessions(self, claims: Sequence[Claim]) -> list[Claim]:
        """Those whose locks still belong to their sessions. One that became a reader while we asked
        is asked for again, by its new lock.
        """
        locks = {claim.id: self._lock_of(claim) for claim in claims}
        owners = await self._sessions.owners(list(locks.values())) if locks else {}
        kept, changed = [], []
        for claim in claims:
            if await self._has_session(claim, owners.get(locks[claim.id])):
                kept.append(claim)
            elif self._lock_of(claim) != locks[claim.id]:
                changed.append(claim)
        return [*kept, *(await self._with_sessions(changed) if changed else ())]

    def _lock_of(self, claim: Claim) -> bytes:
        """A writer that becomes a reader has its own lock a little before its caller knows."""
        known = self._claims.get(claim.id)
        return lock_of(self._owners.place, claim if known is None else known.claim)

    async def _has_session(self, claim: Claim, owner: int | None) -> bool:
        """Whether the claim's lock belongs to the session that is known here, or, if that was
        dropped, to the one that the row has noted: by now others may have that lock.
        """
        if owner is None:
            return False
        known = self._claims.has_number(claim.id, owner)
        if known is not None:
            return known
        _, state = await self._rows.change(claim, recipe.nothing)
        held = state.holders.get(claim.id)
        return held is not None and held.place.session == owner

    async def _lost(self, claim: Claim) -> Notice:
        _, state = await self._rows.change(claim, recipe.nothing)
        note, _ = state.notes.get(claim.id, ("", 0))
        return Broken(note) if note else Renewal.LOST

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        used = self._claims.use(claim.id)
        if used is None or used.home is not self._sessions:
            return await self._release_by_row(claim, used, outcome_unknown=outcome_unknown)
        try:
            self._claims.forget(used)
            if await self._is_in_order(used):
                released = await self._release_used(used, outcome_unknown=outcome_unknown)
                used.session.back()
                return released
        except BaseException:
            self._claims.drop(used)
            raise
        used.session.drop()
        if used.holds or outcome_unknown:
            return await self._release_by_row(claim, None, outcome_unknown=outcome_unknown)
        return False

    async def _is_in_order(self, used: ClaimSession) -> bool:
        """Whether the session can be used: it waits for nothing any more, and the server lives."""
        if used.wait is None:
            return used.session.alive()
        try:
            for _ in range(STOPS):
                await self._sessions.interrupt(used.session.number, used.wait)
                if await used.session.stopped(STOP):
                    return used.session.alive()
        except BackendUnavailable:
            pass  # whatever it waited for, it will not take the row
        return False

    async def _release_used(self, used: ClaimSession, *, outcome_unknown: bool) -> bool:
        claim, session = used.claim, used.session
        if used.holds and not outcome_unknown:
            seen = await session.give_back(self._give_back(used.claim))
            return await self._released(claim, seen)
        released = False
        if outcome_unknown:
            released = await self._release(claim, outcome_unknown=True)
        await session.free(None)
        return released

    async def _release_by_row(
        self, claim: Claim, used: ClaimSession | None, *, outcome_unknown: bool
    ) -> bool:
        """The session is another client's, or in use, or gone: the row is given back, and then the
        session ended.
        """
        try:
            _, state = await self._rows.change(claim, recipe.nothing)
            released = await super().release(claim, outcome_unknown=outcome_unknown)
            if used is not None and used.wait is not None:
                await self._sessions.end(used.session.number, used.wait)
        finally:
            if used is not None:
                self._claims.drop(used)
        if used is None and self._claims.get(claim.id) is not None:
            self._claims.give_up(claim.id)
        elif used is None and claim.id in state.holders:
            await self._owners.end([state.holders[claim.id]])
        return released

    async def downgrade(self, claim: Claim) -> bool:
        """A reader's own lock first, then the row, and then the gate is open for others."""
        used = self._claims.use(claim.id)
        if used is None:
            return await super().downgrade(claim)
        in_order = False
        try:
            shared = used.claim._replace(mode=Mode.SHARED)
            await used.session.keep(lock_of(self._owners.place, shared))
            in_order = True  # whatever becomes of the row: it is written on another connection
            kept = await super().downgrade(claim)
            in_order = False
            used.claim = shared
            if used.at_gate:
                await used.session.free(gate_of(self._owners.place, claim))
                used.at_gate = False
            in_order = True
        finally:
            if in_order:
                self._claims.done(used)
            else:
                self._claims.drop(used)
        return kept

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        _, state = await self._rows.change(Claim(key, ""), recipe.nothing)
        broken = await super().break_hold(key, raw, note)
        if broken is not None:
            raws = {each.raw for each in broken.holders}
            await self._owners.end(held for held in state.holders.values() if held.raw in raws)
        return broken

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return self._claims.watch(claim, signal())

    async def close(self) -> None:
        self.dropped()

    def dropped(self) -> None:
        self._claims.close()
        self._sessions.close()
        self._table.dropped()
        self.drop_history()

    def forked(self) -> None:
        super().forked()
        self._way_in.client = self._client
        self._sessions.forked()
