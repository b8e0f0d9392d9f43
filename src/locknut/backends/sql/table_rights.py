"""Which rights on the table of locks a user lacks: each is tried by a statement that needs it and
changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from locknut.core.findings import fail, warn
from locknut.core.values import Finding
from locknut.errors import BackendUnavailable, LocknutError

_TRIALS: Final = {
    "SELECT": "SELECT name FROM {table} WHERE false",
    "INSERT": "INSERT INTO {table} SELECT * FROM {table} WHERE false",
    "UPDATE": "UPDATE {table} SET stamp = stamp WHERE false",
    "DELETE": "DELETE FROM {table} WHERE false",
}


async def lacking(code: str, table: str, ask: Callable[[str], Awaitable[object]]) -> Finding | None:
    """A finding about the rights that are missing; None if none is. `table` is quoted."""
    missing = [right for right, text in _TRIALS.items() if not await _may(ask, text, table)]
    if not missing:
        return None
    found = f"This user lacks rights on the table {table}: {', '.join(missing)}."
    advice = f"GRANT {', '.join(missing)} ON {table} to it."
    # Without the last one, the rows of names that nobody uses any more only add up.
    return (warn if missing == ["DELETE"] else fail)(code, found, advice)


async def _may(ask: Callable[[str], Awaitable[object]], text: str, table: str) -> bool:
    try:
        await ask(text.format(table=table))
    except BackendUnavailable:
        raise
    except LocknutError:
        return False
    return True
