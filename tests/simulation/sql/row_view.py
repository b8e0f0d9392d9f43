"""The rows of a simulated database, seen as the simulator sees a store."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from locknut.backends.sql import lock_state
from locknut.backends.sql.lock_state import Held, LockState
from locknut.backends.sql.table_port import US, Row
from tests.simulation.memory.node import EPOCH, SimStore, bare

if TYPE_CHECKING:
    from tests.simulation.sql.database import Database


class RowView(SimStore):
    """Holders and waiters, by the database's clock."""

    def __init__(self, database: Database) -> None:
        super().__init__(database.wall, _nothing, _nothing)
        self._database = database

    def holds(self) -> Iterator[Any]:
        now = self._database.microseconds()
        for state in self.states():
            for held in state.holders.values():
                if held.expires > now:
                    yield Shown(held, held.expires / US - EPOCH - self._database.wall_ahead)

    def places_in_line(self) -> Iterator[tuple[str, str]]:
        for state in self.states():
            for claim_id in state.line:
                yield bare(state.key), claim_id

    def states(self) -> Iterator[LockState]:
        """Every lock as its row says, with what has run out."""
        for key, row in self._database.table.rows.items():
            yield _read(key, row)


class Shown:
    """A holder, with its end on the server's clock."""

    def __init__(self, held: Held, expires: float) -> None:
        self.claim, self.raw, self.expires = held.claim, held.raw, expires


@lru_cache(maxsize=64)
def _read(key: bytes, row: Row) -> LockState:
    return lock_state.read(key[1:].decode(), row, 0)


def _nothing(*_: object) -> None:
    """Nothing to do."""
