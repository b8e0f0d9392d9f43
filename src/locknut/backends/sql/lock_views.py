"""What people see of the locks in a table: one of them, or all of a namespace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from locknut.backends.sql import lock_state
from locknut.backends.sql.lock_state import LockState, Waiting
from locknut.backends.sql.table_port import LOCK, PERMITS, US, Table
from locknut.backends.sql.waiting_claims import AHEAD, NOTED, SILENCE
from locknut.core.values import LockInfo

PAGE: Final = 500
"""Rows that are read at a time."""


async def one(table: Table, key: str) -> list[LockInfo]:
    """The lock and the semaphore of this name, as one."""
    rows, now = await table.read([LOCK + key.encode(), PERMITS + key.encode()])
    lock, semaphore = (lock_state.read(key, row, now) for row in rows)
    return await _shown(table, [lock], [semaphore])


async def everything(table: Table, prefix: str) -> list[LockInfo]:
    """All that are held or waited for and whose names begin with this."""
    locks, semaphores = [await _scan(table, kind + prefix.encode()) for kind in (LOCK, PERMITS)]
    return await _shown(table, locks, semaphores)


async def _scan(table: Table, prefix: bytes) -> list[LockState]:
    found: list[LockState] = []
    after = b""
    while True:
        rows, now = await table.scan(prefix, after, PAGE)
        found += [lock_state.read(key[1:].decode(), row, now) for key, row in rows]
        if len(rows) < PAGE:
            return found
        after = rows[-1][0]


async def _shown(
    table: Table, locks: Sequence[LockState], semaphores: Sequence[LockState]
) -> list[LockInfo]:
    """Without waiters that died, and without names that nobody holds or waits for."""
    everybody = (*locks, *semaphores)
    doubtful = [each for state in everybody for each in silent(state, state.line.values())]
    clients = {each.place.client for each in doubtful}
    dead = clients - (await table.living(sorted(clients), NOTED) if clients else set())
    for state in everybody:
        for each in silent(state, list(state.line.values())):
            if each.place.client in dead:
                del state.line[each.claim.id]
    found: dict[str, LockInfo] = {}
    for states, permits in ((locks, False), (semaphores, True)):
        for state in states:
            if state.holders or state.line:
                shown = state.shown(permits=permits)
                found[state.key] = together(found.get(state.key), shown) or shown
    return list(found.values())


def silent(state: LockState, waiting: Iterable[Waiting]) -> list[Waiting]:
    """Those whose coming does not show that they live: it was too long ago, or by a clock that was
    set back since.
    """
    earliest, latest = state.now - SILENCE * US, state.now + AHEAD * US
    return [each for each in waiting if not earliest <= each.joined <= latest]


def together(one: LockInfo | None, other: LockInfo | None) -> LockInfo | None:
    """A lock and a semaphore of one name."""
    if one is None or other is None:
        return one or other
    holders, waiters = one.holders + other.holders, one.waiters + other.waiters
    return LockInfo(one.name, holders, waiters, other.permits or one.permits)
