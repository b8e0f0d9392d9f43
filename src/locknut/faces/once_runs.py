"""What `once` of either face does: from a start to a run or a skip, and from the run to its end.

This waits, and is written once: the blocking face runs each coroutine in one step, as it does with
those of the core. What is acquired is in the `Run` from the moment that it is held, so whatever
interrupts a start can give it back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from locknut.core import detaching, inspecting
from locknut.core.acquiring_all import roll_back
from locknut.core.releasing import release
from locknut.errors import BackendError
from locknut.faces.once_base import LeaseT, OnceBase, Run

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.faces.slots import Slot

DONE = "it was begun by {}"
RUNNING = "the run of another slot is not over: it is held by {}"
LATE = "it is too late for it"
AGAIN = "it is being run by the same thread or task"


class OnceRuns(OnceBase[LeaseT]):
    """At most one run for each slot: how it begins and ends."""

    async def _begin(self, run: Run[LeaseT]) -> None:
        """Take what a run needs; nothing of it is held afterwards if it is not to be run here."""
        locks = self._locks()
        run.slot = slot = self.check_engine(locks)._slot()
        why = LATE if self._is_late(slot) else await self._take(locks, slot, run.acquired)
        if why:
            await roll_back(run.acquired)
            self._skipped(locks, slot, why)

    async def _take(self, locks: Any, slot: Slot, acquired: list[Any]) -> str:
        """Take the slot and the lock of the name; return why not, if they are not to be had."""
        key, client = slot.key(self.name), locks._client
        of_slot = locks.lock(key, self._ttl, timeout=0)
        if of_slot.held:
            return AGAIN
        await of_slot._acquire_into(acquired)
        if not acquired:
            return DONE.format(await _holder(client, key))
        of_name = locks.lock(self.name, self._ttl, timeout=0, max_hold=self._at_most)
        await of_name._acquire_into(acquired)
        if len(acquired) == 1:
            return RUNNING.format(await _holder(client, self.name))
        if self._is_late(slot):
            return LATE
        if not self._retry:  # from here on the slot is taken, whatever becomes of us
            await self._detach(acquired[0], slot)
            del acquired[0]
        return ""

    async def _detach(self, mark: LeaseT, slot: Slot) -> None:
        """Let the engine remember the slot, without anybody."""
        client = mark._client
        ttl = detaching.checked_ttl(client.backend, self._left(client.backend, slot))
        await detaching.detach(client, mark, ttl)

    async def _undo(self, run: Run[LeaseT]) -> None:
        """Whatever was done of a start is undone."""
        self._forget(run)
        await roll_back(run.acquired)

    async def _settle(self, run: Run[LeaseT], *, done: bool) -> None:
        """Say what became of the slot, while the lock of the name is still held."""
        mark = run.mark
        if mark is None:
            return
        mark._client.runtime.caller()  # it raises on any other loop than the client's
        if done:
            await self._detach(mark, run.slot)
        else:
            await roll_back([mark])

    async def _end(self, run: Run[LeaseT], *, done: bool) -> None:
        """Settle it, and release the lock of the name."""
        if not run.acquired:
            return
        lease = run.lease
        lease._client.runtime.caller()  # as above
        try:
            await self._settle(run, done=done)
        except BaseException:
            await roll_back([lease])
            raise
        await release(lease._client, lease)


async def _holder(client: Client, name: str) -> str:
    """Who has it, as far as the engine knows."""
    with suppress(BackendError):
        holders = (await inspecting.info(client, name)).holders
        return str(holders[0]) if holders else "somebody"
    return "somebody"
