"""What stands in a claim's way, and need not: holds that have run out, and waiters that died.

One statement takes each of them out, whatever others write meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence

from locknut.backends.sql import lock_state, lock_views
from locknut.backends.sql.lock_state import LockState, Waiting
from locknut.backends.sql.row_changes import RowChanges, key_of
from locknut.backends.sql.table_port import GiveBack, Row, Table
from locknut.backends.sql.waiting_claims import NOTED, WaitingClaims
from locknut.core.values import Claim


class Obstacles:
    """As one client sees them."""

    def __init__(self, table: Table, rows: RowChanges, waiting: WaitingClaims, client: str):
        self._table = table
        self._rows = rows
        self._waiting = waiting
        self._client = client

    async def remove(self, claim: Claim, state: LockState) -> bool:
        """Take out what is in this claim's way; return whether there was anything."""
        dead = await self._dead_ahead(claim, state)
        if not dead and not (state.over and state.may_enter(claim)):
            return False
        if dead:
            await self._table.leave(self._all(claim, dead))
        if state.over:
            await self._table.sweep(self._all(claim, state.over))
        state.line = {who: each for who, each in state.line.items() if who not in dead}
        await self._rows.ring([each for each in state.entering() if each.claim.id != claim.id])
        return True

    async def remove_all(
        self, claims: Sequence[Claim], rows: Sequence[Row | None], now: int
    ) -> bool:
        """The same for several claims, by the rows that were read."""
        removed = False
        for claim, row in zip(claims, rows, strict=True):
            removed |= await self.remove(claim, lock_state.read(claim.key, row, now))
        return removed

    def _all(self, claim: Claim, heads: list[str]) -> list[GiveBack]:
        return [GiveBack(key_of(claim), head, self._rows.stamp()) for head in heads]

    async def _dead_ahead(self, claim: Claim, state: LockState) -> list[str]:
        """Those before it in line whose clients are gone; asked only if it matters: the lock has
        room, and they do not come.
        """
        if not state.entering():
            return []
        silent = lock_views.silent(state, state.ahead(claim))
        others = {each.place.client for each in silent} - {self._client}
        living = await self._table.living(sorted(others), NOTED) if others else set()
        return [each.claim.id for each in silent if not self._lives(each, living)]

    def _lives(self, waiting: Waiting, living: set[str]) -> bool:
        if waiting.place.client == self._client:
            return waiting.claim.id in self._waiting.by_id
        return waiting.place.client in living
