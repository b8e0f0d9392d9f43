"""What a program asks in a transaction of its own to make sure of a hold in the same database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from locknut.backends.sql import lock_state
from locknut.backends.sql.row_changes import key_of
from locknut.backends.sql.table_port import Row
from locknut.core.values import Claim, HoldCheck

_LOCKING: Final = " FOR UPDATE"


def hold_check(claim: Claim, keep: str) -> HoldCheck:
    """By a statement that locks the row of the name and returns it, with the time by its clock."""

    def holds(rows: Sequence[Sequence[Any]]) -> bool:
        for *columns, now in rows:
            return claim.id in lock_state.read(claim.key, Row(*columns), now).holders
        return False

    return HoldCheck(keep.removesuffix(_LOCKING), keep, key_of(claim), holds)
