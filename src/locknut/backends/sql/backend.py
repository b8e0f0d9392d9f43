"""The SQL engines behind the core's port: the verbs, the same in both colours and on all databases.

Each of the common verbs is one statement. Where that did nothing and the row tells that something
is to be done, holds that have run out and dead waiters are taken out of the way, and it is asked
again. Rare verbs read the row, change it by the recipe, and swap it for the changed one. Whoever
gives something up rings those whose turn it is; they take the lock themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final

from locknut.backends.sql import lock_state, lock_views, recipe
from locknut.backends.sql.history_door import RememberingBackend
from locknut.backends.sql.hold_records import number_of
from locknut.backends.sql.lock_state import LockState, Place
from locknut.backends.sql.obstacles import Obstacles
from locknut.backends.sql.row_changes import RowChanges, key_of
from locknut.backends.sql.table_port import (
    US,
    Bells,
    Extension,
    GiveBack,
    Joined,
    Seen,
    Table,
)
from locknut.backends.sql.waiting_claims import SILENCE, WaitingClaim, WaitingClaims
from locknut.core.base import Watch
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
    Capability.HISTORY,
}
NET: Final = 1.0
ROUNDS: Final = 3
"""So often a claim asks in one go, while something can be taken out of its way."""
PRUNED: Final = 200
"""Rows that are deleted at a time."""


class SqlBackend(RememberingBackend):
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
        if waiting is None:
            return await self._ask(claim, alarmed=True)
        # Also before a question: one that asks every second would not come to it.
        await self._beat()
        if not self._waiting.is_due(waiting):
            return Busy(self._waiting.retry_in(waiting))
        # Before the question: a ring from here on is about what comes.
        alarmed, waiting.rung = waiting.rung, False
        try:
            return await self._ask(claim, alarmed=alarmed)
        except BaseException:
            waiting.rung = True  # it was not answered, and may have been granted: ask again
            raise

    async def _ask(self, claim: Claim, *, alarmed: bool) -> Answer:
        """A waiter that came without a ring calls the others: theirs may be missing, too."""
        state = None
        for _ in range(ROUNDS):
            seen = await self._table.take(self._rows.take(claim, self._client, queue=claim.waits))
            if seen.joined is not None:
                return self._stands(claim, seen.joined)
            raw = number_of(seen, claim.id)
            if raw is not None:
                if not alarmed:
                    await self._ring_next(claim, seen)
                return self._granted(claim, raw)
            state = lock_state.read(claim.key, seen.row, seen.now)
            if await self._obstacles().remove(claim, state):
                continue
            if claim.id not in state.holders and not state.may_enter(claim):
                break
            enter = recipe.enter(claim, self._place())
            entered = await self._rows.change_once(claim, enter, seen)
            if entered is None:
                continue  # the row tells that it may enter, but of a moment that is over
            granted, state = entered
            if granted is not None:
                return self._granted(claim, granted.raw)
            break
        if state is None or not claim.waits:
            return Busy(NET, queued=False)
        return self._refused(claim, state)

    def _granted(self, claim: Claim, raw: int) -> Granted:
        if self._waiting.by_id:
            self._forget(claim)
        return Granted(raw)

    def _refused(self, claim: Claim, state: LockState) -> Busy:
        ends = min((held.expires for held in state.holders.values()), default=state.now + US)
        place = len(state.ahead(claim))
        return self._stands(claim, Joined(state.before(claim), place, ends - state.now))

    def _stands(self, claim: Claim, at: Joined) -> Busy:
        """It is in line: who rings for it, and when it looks again by itself."""
        waiting = self._waiting.refused(claim, at.place, at.free_in / US)
        self._bells.expect(key_of(claim), claim.id, at.behind, waiting.ring)
        return Busy(self._waiting.retry_in(waiting))

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
        for _ in range(ROUNDS):
            found = await self._table.take_all(
                [self._rows.take(each, self._client, queue=False) for each in in_order]
            )
            if found is not None:
                numbers = {
                    each.id: number_of(seen, each.id) or 0
                    for each, seen in zip(in_order, found, strict=True)
                }
                return [Granted(numbers[claim.id]) for claim in claims]
            rows, now = await self._table.read([key_of(each) for each in in_order])
            if await self._obstacles().remove_all(in_order, rows, now):
                continue
            granted = await self._rows.enter_all_once(in_order, self._place(), rows, now)
            if granted is None:
                break
            if granted:
                return [granted[claim.id] for claim in claims]
        return Busy(0.0)

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
        waited = self._forget(claim) if self._waiting.by_id else None
        if outcome_unknown:
            return await self._release(claim, outcome_unknown=True)
        if waited is not None:
            (left,) = await self._table.leave([self._give_back(claim)])
            if left.row is not None:
                await self._ring_next(claim, left)
                return False
        (seen,) = await self._table.give_back([self._give_back(claim)])
        if seen.row is not None and not seen.row.line and not seen.first_in_line:
            return True  # nobody waits
        return await self._released(claim, seen)

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        for claim in claims:
            self._forget(claim)
        if outcome_unknown:
            return await super().release_all(claims, outcome_unknown=True)
        answers = await self._table.give_back([self._give_back(claim) for claim in claims])
        return [
            await self._released(claim, seen) for claim, seen in zip(claims, answers, strict=True)
        ]

    async def _released(self, claim: Claim, seen: Seen) -> bool:
        """Whether it was. If not, it may have run out, or be detached, or wait."""
        if seen.row is not None:
            await self._ring_next(claim, seen)
            return True
        (swept,) = await self._table.sweep([self._give_back(claim)])
        if swept.row is None:
            return await self._release(claim, outcome_unknown=False)
        await self._ring_next(claim, swept)
        return False

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
        self.drop_history()

    def forked(self) -> None:
        """The child is another client: its parent's places in line are not its own."""
        super().forked()
        self._table.forked()
        self._bells.forked()
        self._client = self._bells.client
        self._waiting = WaitingClaims(self._runtime, wakes=self._bells.wakes)

    def dropped(self) -> None:
        self._bells.dropped()
        self._table.dropped()
        self.drop_history()

    async def _ring_next(self, claim: Claim, seen: Seen) -> None:
        if seen.first_in_line:
            await self._bells.ring([("", seen.first_in_line)])
        elif seen.row is not None and seen.row.line:
            state = lock_state.read(claim.key, seen.row, seen.now)
            await self._rows.ring(state.entering())

    def _give_back(self, claim: Claim) -> GiveBack:
        alone = claim.mode is Mode.EXCLUSIVE and claim.owner is None
        return GiveBack(key_of(claim), claim.id, self._rows.stamp(), alone)

    def _obstacles(self) -> Obstacles:
        return Obstacles(self._table, self._rows, self._waiting, self._client)

    def _place(self) -> Place:
        return lock_state.here(self._client, os.getpid())
