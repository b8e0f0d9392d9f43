"""Changes to the whole state of a lock: read its row, change it, swap it if nobody wrote meanwhile.

Only what is rare is done like this. Each conflict means that somebody else has got on, so all of
them together do; but a slow one might never. Nothing is believed that was not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeVar

from locknut.backends.sql import lock_state, recipe
from locknut.backends.sql.lock_state import LockState, Place, Waiting
from locknut.backends.sql.table_port import LOCK, PERMITS, Bells, Row, Seen, Swap, Table, Take
from locknut.core.ports import Runtime
from locknut.core.values import Claim, Granted, Mode
from locknut.errors import BackendUnavailable, LocknutError

T = TypeVar("T")
_new_tuple = tuple.__new__
CONFLICTS: Final = 200
"""So many in a row mean that something is wrong."""


def key_of(claim: Claim) -> bytes:
    """The key of the claim's row."""
    return (PERMITS if claim.mode is Mode.PERMIT else LOCK) + claim.key.encode()


class RowChanges:
    """What a client changes in a table, and whom it rings for that."""

    def __init__(self, name: str, table: Table, bells: Bells, runtime: Runtime):
        self._name = name
        self._table = table
        self._bells = bells
        self._runtime = runtime

    def stamp(self) -> int:
        """A new one, as each write needs."""
        return int(self._runtime.new_id()[:15], 16)

    def take(self, claim: Claim, client: str, *, queue: bool) -> Take:
        """What a claim asks of its lock's row, in one statement."""
        wanted = (
            key_of(claim), claim.id, lock_state.microseconds(claim),
            lock_state.facts_of(claim, client), queue, self.stamp(),
            lock_state.mode_of(claim), lock_state.owner_of(claim), claim.permits,
        )  # fmt: skip
        return _new_tuple(Take, wanted)  # half the price of Take(...), and every attempt makes one

    async def change(
        self, claim: Claim, change: recipe.Change[T], seen: Seen | None = None
    ) -> tuple[T, LockState]:
        """Change the claim's lock, as it was seen or as it is; return the answer, and what the lock
        is then.
        """
        for _ in range(CONFLICTS):
            if seen is None:
                (row,), now = await self._table.read([key_of(claim)])
                seen = Seen(row, now)
            done = await self.change_once(claim, change, seen)
            if done is not None:
                return done
            seen = None
        message = "the lock's row changed again and again while it was to be changed; try again"
        raise BackendUnavailable(message, key=claim.key, backend=self._name)

    async def change_once(
        self, claim: Claim, change: recipe.Change[T], seen: Seen
    ) -> tuple[T, LockState] | None:
        """The same, of what was seen; None if that is not what stands there now."""
        state = lock_state.read(claim.key, seen.row, seen.now)
        outcome = change(state)
        if outcome.changed:
            if not await self._table.swap([self._swap(claim, seen.row, state)]):
                return None
            await self.ring(outcome.ring)
        return outcome.answer, state

    async def enter_all_once(
        self, claims: Sequence[Claim], place: Place, rows: Sequence[Row | None], now: int
    ) -> dict[str, Granted] | None:
        """Let all of them in, by the rows that were read. None: one of them cannot; nobody is in
        the answer if the rows are others by now.
        """
        granted, swaps = {}, []
        for claim, row in zip(claims, rows, strict=True):
            state = lock_state.read(claim.key, row, now)
            outcome = recipe.enter(claim, place)(state)
            if outcome.answer is None:
                return None
            granted[claim.id] = outcome.answer
            swaps.append(self._swap(claim, row, state))
        return granted if await self._table.swap(swaps) else {}

    def _swap(self, claim: Claim, known: Row | None, state: LockState) -> Swap:
        stamp = None if known is None else known.stamp
        return Swap(key_of(claim), stamp, lock_state.written(state, self.stamp()))

    async def ring(self, waiting: Sequence[Waiting]) -> None:
        if waiting:
            with suppress(LocknutError):  # they look by themselves, later
                await self._bells.ring([(each.place.client, each.claim.id) for each in waiting])
