"""The SQL engines behind the core's port: the verbs, the same in both colours and on all databases.

A verb tries the one statement that decides the common case. Where that cannot decide, the row is
read, changed by the recipe and swapped for the changed one, and if somebody wrote meanwhile, read
again. Whoever gives something up rings those whose turn it is; they take the lock themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final

from locknut.backends.sql import lock_state, lock_views, recipe
from locknut.backends.sql.lock_state import LockState, Place, Waiting
from locknut.backends.sql.row_changes import Refused, RowChanges, key_of
from locknut.backends.sql.table_port import (
    US,
    Bells,
    Extension,
    GiveBack,
    Seen,
    Table,
    Take,
)
from locknut.backends.sql.waiting_claims import SILENCE, WaitingClaim, WaitingClaims
from locknut.core.base import BaseBackend, Watch
from locknut.core.ports import Runtime, Signal
from locknut.core.values import (
    Answer,
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

CAPABILITIES: Final = frozenset(Capability) - {
    Capability.SESSION,
    Capability.REPLICATED,
    Capability.WAKE_UP,
}
NET: Final = 1.0
PRUNED: Final = 200
"""Rows that are deleted at a time."""


class SqlBackend(BaseBackend):
    """One client's door to a table of locks."""

    default_ttl: float | None = 30.0
    min_ttl = 0.1
    max_ttl = 30 * 86400.0
    batches = True
    passes_notes = True

    def __init__(self, name: str, table: Table, bells: Bells, runtime: Runtime):
        self.name = name
        wakes = {Capability.WAKE_UP} if bells.wakes else set()
        self.capabilities = CAPABILITIES | wakes
        self.inside = table.inside
        self._table = table
        self._bells = bells
        self._runtime = runtime
        self._client = bells.client
        self._waiting = WaitingClaims(runtime, wakes=bells.wakes)
        self._rows = RowChanges(name, table, bells, runtime)

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # noqa: ARG002 -- `watch` waits
        waiting = self._waiting.by_id.get(claim.id)
        if waiting is not None:
            await (
                self._beat()
            )  # also before a question: one that asks every second would not come to it
            if not self._waiting.is_due(waiting):
                return Busy(self._waiting.retry_in(waiting))
            waiting.rung = False  # before the question: a ring from here on is about what comes
        try:
            return await self._ask(claim)
        except BaseException:
            if waiting is not None:
                waiting.rung = True  # it was not answered, and may have been granted: ask again
            raise

    async def _ask(self, claim: Claim) -> Answer:
        seen = await self._table.take(self._take(claim, queue=claim.waits))
        if _holds(seen, claim):
            return self._granted(claim, seen.row.fence if seen.row else 0)
        return await self._consider(claim, seen)

    def _granted(self, claim: Claim, raw: int) -> Granted:
        if self._waiting.forget(claim.id) is not None:
            self._bells.forget(claim.id)
        return Granted(raw)

    async def _consider(self, claim: Claim, seen: Seen) -> Answer:
        """What one statement could not decide: the claim may fit beside others, or behind dead
        ones.
        """
        enter = partial(recipe.enter, claim, self._place())
        granted, state = await self._rows.change(claim, enter(frozenset()), seen)
        if granted is None and (dead := await self._dead_ahead(claim, state)):
            granted, state = await self._rows.change(claim, enter(dead))
        if granted is not None:
            return self._granted(claim, granted.raw)
        if not claim.waits:
            return Busy(NET, queued=False)
        return self._refused(claim, state)

    def _refused(self, claim: Claim, state: LockState) -> Busy:
        """Where it stands, and when to look again."""
        ahead = state.ahead(claim)
        ends = min((held.expires for held in state.holders.values()), default=state.now + US)
        waiting = self._waiting.refused(claim, len(ahead), (ends - state.now) / US)
        before = ahead[-1].claim.id if ahead else next(iter(state.holders), "")
        self._bells.expect(key_of(claim), claim.id, before, waiting.ring)
        return Busy(self._waiting.retry_in(waiting))

    async def _dead_ahead(self, claim: Claim, state: LockState) -> frozenset[str]:
        """Those before it in line whose clients are gone; asked only if it matters: the lock has
        room, and they do not come.
        """
        if not state.entering():
            return frozenset()
        silent = lock_views.silent(state, state.ahead(claim))
        others = {each.place.client for each in silent} - {self._client}
        living = await self._table.living(sorted(others)) if others else set()
        return frozenset(each.claim.id for each in silent if not self._lives(each, living))

    def _lives(self, waiting: Waiting, living: set[str]) -> bool:
        if waiting.place.client == self._client:
            return waiting.claim.id in self._waiting.by_id
        return waiting.place.client in living

    async def _beat(self) -> None:
        if not self._waiting.beat_is_due():
            return
        try:
            await self._table.beat(self._client, int(SILENCE * US))
        except BaseException:
            self._waiting.beat_failed()
            raise

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        in_order = sorted(claims, key=key_of)
        wanted = [self._take(claim, queue=False) for claim in in_order]
        found = await self._table.take_all(wanted)
        if found is None:
            granted = await self._enter_all(in_order)
        else:
            rows = zip(in_order, (seen.row for seen in found), strict=True)
            granted = {claim.id: Granted(row.fence) for claim, row in rows if row is not None}
        return Busy(0.0) if granted is None else [granted[claim.id] for claim in claims]

    async def _enter_all(self, claims: Sequence[Claim]) -> dict[str, Granted] | None:
        """What one statement could not decide: all of them may fit beside others, or behind dead
        ones.
        """
        dead: frozenset[str] = frozenset()
        while True:
            granted = await self._rows.enter_all(claims, self._place(), dead)
            if not isinstance(granted, Refused):
                return granted
            found = dead | await self._dead_ahead(granted.claim, granted.state)
            if found == dead:
                return None
            dead = found

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        holds = [
            Extension(key_of(claim), claim.id, lock_state.microseconds(claim), self._rows.stamp())
            for claim in claims
        ]
        extended = await self._table.extend(holds)
        rest = [claim for claim, held in zip(claims, extended, strict=True) if not held]
        if not rest:
            return [Renewal.HELD] * len(claims)
        rows, now = await self._table.read([key_of(claim) for claim in rest])
        answers: dict[str, Notice] = {}
        for claim, row in zip(rest, rows, strict=True):
            try:
                renewed = self._rows.change(claim, recipe.renew(claim), Seen(row, now))
                answers[claim.id], _ = await renewed
            except BackendUnavailable:
                answers[claim.id] = Renewal.UNKNOWN
        return [answers.get(claim.id, Renewal.HELD) for claim in claims]

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        waited = self._forget(claim)
        if outcome_unknown:
            return await self._release(claim, outcome_unknown=True)
        if waited is not None:
            seen = await self._table.leave(key_of(claim), claim.id, self._rows.stamp())
        else:
            (seen,) = await self._table.give_back([self._give_back(claim)])
        if seen.row is None:
            return await self._release(claim, outcome_unknown=False)
        await self._ring_next(claim, seen)
        return waited is None and seen.row.expires > seen.now

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        for claim in claims:
            self._forget(claim)
        if outcome_unknown:
            return await super().release_all(claims, outcome_unknown=True)
        answers = await self._table.give_back([self._give_back(claim) for claim in claims])
        released = []
        for claim, seen in zip(claims, answers, strict=True):
            if seen.row is None:
                released.append(await self._release(claim, outcome_unknown=False))
            else:
                await self._ring_next(claim, seen)
                released.append(seen.row.expires > seen.now)
        return released

    async def _release(self, claim: Claim, *, outcome_unknown: bool) -> bool:
        change = recipe.release(claim, outcome_unknown=outcome_unknown)
        released, _ = await self._rows.change(claim, change)
        return released

    def _forget(self, claim: Claim) -> WaitingClaim | None:
        waited = self._waiting.forget(claim.id)
        if waited is not None:
            self._bells.forget(claim.id)
        return waited

    async def downgrade(self, claim: Claim) -> bool:
        kept, _ = await self._rows.change(claim, recipe.downgrade(claim))
        return kept

    async def detach(self, claim: Claim, ttl: float) -> bool:
        detached, _ = await self._rows.change(claim, recipe.detach(claim, ttl))
        return detached

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        granted, _ = await self._rows.change(claim, recipe.attach(detached, claim, self._place()))
        return granted

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await self._rows.change(claim, recipe.undo_attach(claim, detached))

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        broken = None
        for mode in (Mode.EXCLUSIVE, Mode.PERMIT):
            claim = Claim(key, "", mode=mode)
            change = recipe.break_hold(raw, note, permits=mode is Mode.PERMIT)
            found, _ = await self._rows.change(claim, change)
            broken = lock_views.together(broken, found)
        return broken

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await lock_views.everything(self._table, "")
        return await lock_views.one(self._table, key)

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return await lock_views.everything(self._table, prefix)

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        waiting = self._waiting.by_id.get(claim.id)
        return Watch(waiting or WaitingClaim(claim), signal())

    async def server(self) -> str:
        return await self._table.version()

    async def tidy(self) -> None:
        """A little at a time, until nothing is left to remove or the time for it is over."""
        while await self._table.prune(PRUNED) >= PRUNED:
            pass

    async def close(self) -> None:
        await self._bells.close()
        await self._table.close()

    def forked(self) -> None:
        """The child is another client: its parent's places in line are not its own."""
        self._table.forked()
        self._bells.forked()
        self._client = self._bells.client
        self._waiting = WaitingClaims(self._runtime, wakes=self._bells.wakes)

    def dropped(self) -> None:
        self._bells.dropped()
        self._table.dropped()

    async def _ring_next(self, claim: Claim, seen: Seen) -> None:
        if seen.row is not None and seen.row.line:
            state = lock_state.read(claim.key, seen.row, seen.now)
            await self._rows.ring(state.entering())

    def _take(self, claim: Claim, *, queue: bool) -> Take:
        facts = lock_state.facts_of(claim, self._client)
        ttl = lock_state.microseconds(claim)
        return Take(key_of(claim), claim.id, ttl, facts, queue, self._rows.stamp())

    def _give_back(self, claim: Claim) -> GiveBack:
        return GiveBack(key_of(claim), claim.id, self._rows.stamp())

    def _place(self) -> Place:
        return lock_state.here(self._client, os.getpid())


def _holds(seen: Seen, claim: Claim) -> bool:
    """Whether the claim holds: read back, never believed from a count (S14)."""
    row = seen.row
    return row is not None and row.holder == claim.id and row.expires > seen.now
