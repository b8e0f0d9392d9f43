"""Which sessions have the locks of a name, and which of them have no right to it any more.

A process can be stopped, or its machine vanish from the network, while the server still keeps its
session and with it the lock. Its hold runs out by the row. Then the session is ended, by whoever
waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from locknut.backends.sql.lock_state import Held, LockState
from locknut.backends.sql.session.claim_sessions import ClaimSession
from locknut.backends.sql.session.session_port import LockSessions, lock_of
from locknut.core.ports import Runtime
from locknut.core.values import Mode

STALLED: Final = 5.0
"""Seconds after which a session is ended that has the gate and never came to the row."""
SUSPECTS: Final = 1000
"""So many are remembered."""
LOOKS: Final = 200
"""So often it is asked whether a session that was ended is gone, one question after the other."""


class LockOwners:
    """As one client sees them."""

    def __init__(self, sessions: LockSessions, runtime: Runtime):
        self._sessions = sessions
        self.place = sessions.place
        self._runtime = runtime
        self._suspects: dict[bytes, tuple[object, float]] = {}
        """By lock: which session had it, though the row had no holder, and since when."""

    async def of(self, lock: bytes) -> int | None:
        return (await self._sessions.owners([lock])).get(lock)

    async def living_reader(self, state: LockState) -> bytes | None:
        """The lock of a reader that still has its session."""
        readers = [held for held in state.holders.values() if held.claim.mode is Mode.SHARED]
        locks = [lock_of(self.place, held.claim) for held in readers]
        owners = await self._sessions.owners(locks) if locks else {}
        return next((lock for lock in locks if lock in owners), None)

    async def end(self, holds: Iterable[Held]) -> bool:
        """End the sessions of these holds, if they still have their locks. Whether any had."""
        ended = False
        for held in holds:
            lock = lock_of(self.place, held.claim)
            if held.place.session is not None and await self.of(lock) == held.place.session:
                await self._end(held.place.session, lock)
                ended = True
        return ended

    async def end_owner(self, lock: bytes) -> None:
        """End the session that has this lock, whichever it is."""
        owner = await self.of(lock)
        if owner is not None:
            await self._end(owner, lock)

    async def knows_of(self, used: ClaimSession, lock: bytes, state: LockState) -> bool:
        """Whether the server knows that this claim waits. If nobody has the lock, and still nobody
        when it is looked at again, it does not.
        """
        owner = await self.of(lock)
        if owner is not None:
            await self._suspect(owner, lock, state)
        forgotten, used.unowned = used.unowned and owner is None, owner is None
        return not forgotten

    async def end_stalled(self, lock: bytes, state: LockState) -> bool:
        """A session has the lock, and the row has no holder: it is about to enter, or was stopped
        on its way. If that lasts, it is ended. Whether it was.
        """
        owner = await self.of(lock)
        return owner is not None and await self._suspect(owner, lock, state)

    async def _suspect(self, owner: int, lock: bytes, state: LockState) -> bool:
        """What one claim has seen counts for the next: each may wait for less than that."""
        now, seen = self._runtime.now(), (owner, state.fence)
        noted, since = self._suspects.get(lock, (None, now))
        if noted != seen:
            if len(self._suspects) >= SUSPECTS:
                self._suspects.clear()
            self._suspects[lock] = seen, now
        elif now >= since + STALLED:
            del self._suspects[lock]
            await self._end(owner, lock)
            return True
        return False

    async def _end(self, number: int, lock: bytes) -> None:
        await self._sessions.end(number, lock)
        for _ in range(LOOKS):
            if await self.of(lock) != number:
                return
