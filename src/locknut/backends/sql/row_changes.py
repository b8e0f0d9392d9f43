"""Changes to the whole state of a lock: read its row, change it, swap it if nobody wrote meanwhile.

Each conflict means that somebody else has got on, so all of them together do. Nothing is believed
that was not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeVar

from locknut.backends.sql import lock_state, recipe
from locknut.backends.sql.lock_state import LockState, Place, Waiting
from locknut.backends.sql.table_port import LOCK, PERMITS, Bells, Seen, Swap, Table
from locknut.core.ports import Runtime
from locknut.core.values import Claim, Granted, Mode
from locknut.errors import BackendUnavailable, LocknutError

T = TypeVar("T")
CONFLICTS: Final = 200
"""So many in a row mean that something is wrong."""


def key_of(claim: Claim) -> bytes:
    """The key of the claim's row."""
    return (PERMITS if claim.mode is Mode.PERMIT else LOCK) + claim.key.encode()


class Refused(NamedTuple):
    """One of several claims that does not get in, and what its lock is then."""

    claim: Claim
    state: LockState


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

    async def change(
        self, claim: Claim, change: recipe.Change[T], seen: Seen | None = None
    ) -> tuple[T, LockState]:
        """Change the claim's lock, as it was seen or as it is; return the answer, and what the lock
        is then.
        """
        key = key_of(claim)
        for _ in range(CONFLICTS):
            if seen is None:
                (row,), now = await self._table.read([key])
                seen = Seen(row, now)
            state = lock_state.read(claim.key, seen.row, seen.now)
            outcome = change(state)
            if not outcome.changed:
                return outcome.answer, state
            stamp = None if seen.row is None else seen.row.stamp
            swap = Swap(key, stamp, lock_state.written(state, self.stamp()))
            if await self._table.swap([swap]):
                await self.ring(outcome.ring)
                return outcome.answer, state
            seen = None
        raise self._restless(claim)

    async def enter_all(
        self, claims: Sequence[Claim], place: Place, dead: frozenset[str]
    ) -> dict[str, Granted] | Refused:
        """Let all of them in, beside others where they fit and behind dead waiters, or none. They
        come sorted by key.
        """
        keys = [key_of(claim) for claim in claims]
        for _ in range(CONFLICTS):
            rows, now = await self._table.read(keys)
            granted, swaps = {}, []
            for claim, key, row in zip(claims, keys, rows, strict=True):
                state = lock_state.read(claim.key, row, now)
                outcome = recipe.enter(claim, place, dead)(state)
                if outcome.answer is None:
                    return Refused(claim, state)
                granted[claim.id] = outcome.answer
                stamp = None if row is None else row.stamp
                swaps.append(Swap(key, stamp, lock_state.written(state, self.stamp())))
            if await self._table.swap(swaps):
                return granted
        raise self._restless(claims[0])

    async def ring(self, waiting: Sequence[Waiting]) -> None:
        if waiting:
            with suppress(LocknutError):  # they look by themselves, later
                await self._bells.ring([(each.place.client, each.claim.id) for each in waiting])

    def _restless(self, claim: Claim) -> BackendUnavailable:
        message = "the lock's row changed again and again while it was to be changed; try again"
        return BackendUnavailable(message, key=claim.key, backend=self._name)
