"""The asyncio face of `once`: at most one run for each slot of a schedule, across all hosts."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from locknut.errors import BackendError, LocknutError
from locknut.faces.misuse import for_async_with
from locknut.faces.once_base import AGAIN, DONE, LATE, RUNNING, OnceBase, Run, by_whom

if TYPE_CHECKING:
    from locknut.aio.lease import Lease
    from locknut.aio.locks import Locks
    from locknut.core.values import LockInfo
    from locknut.faces.slots import Slot

P = ParamSpec("P")
R = TypeVar("R")


@for_async_with
class Once(OnceBase["Lease"]):
    """At most one run for each slot: `with` gives a lease, or None where nothing is to be done."""

    __module__ = "locknut.aio"  # in reprs: users know no other place

    @staticmethod
    def _caller() -> object:
        return asyncio.current_task()

    async def acquire(self) -> Lease | None:
        """Begin the run of this slot: return its lease, or None if it is not to be run here."""
        run = await self._begin()
        return None if run is None else self._begun(run)

    async def _begin(self) -> Run[Lease] | None:
        locks = self._locks()
        slot = self.check_engine(locks)._slot()
        acquired: list[Lease] = []
        why = LATE if self._is_late(slot) else ""
        try:
            why = why or await self._take(locks, slot, acquired)
        except BaseException:
            await _give_back(acquired)
            raise
        if not why:
            *marks, lease = acquired
            return Run(lease, marks[0] if marks else None, slot)
        await _give_back(acquired)
        self._skipped(locks, slot, why)
        return None

    async def _take(self, locks: Locks, slot: Slot, acquired: list[Lease]) -> str:
        """Take the slot and the lock of the name; return why not, if they are not to be had."""
        key = slot.key(self.name)
        of_slot = locks.lock(key, self._ttl, timeout=0)
        if of_slot.held:
            return AGAIN
        mark = await of_slot.acquire()
        if mark is None:
            return DONE.format(by_whom(await _look(locks, key)))
        acquired.append(mark)
        lease = await locks.lock(self.name, self._ttl, timeout=0, max_hold=self._at_most).acquire()
        if lease is None:
            return RUNNING.format(by_whom(await _look(locks, self.name)))
        acquired.append(lease)
        if self._is_late(slot):
            return LATE
        if not self._retry:  # from here on the slot is taken, whatever becomes of us
            await mark.detach(self._left(locks, slot))
            acquired.remove(mark)
        return ""

    async def release(self, *, done: bool = True) -> None:
        """End the run. With `retry`, a slot that is not `done` is free for another run."""
        run = self._ended()
        if run is not None:
            try:
                await self._settle(run, done=done)
            except BaseException:
                await _give_back([run.lease])
                raise
            await run.lease.release()

    async def _settle(self, run: Run[Lease], *, done: bool) -> None:
        """Say what became of the slot, while the lock of the name is still held."""
        if run.mark is not None and done:
            await run.mark.detach(self._left(self._locks(), run.slot))
        elif run.mark is not None:
            await _give_back([run.mark])

    async def __aenter__(self) -> Lease | None:
        run = await self._begin()
        if run is not None:
            try:
                await run.lease.__aenter__()  # from here on a loss cancels the body
            except BaseException:
                await _give_back([*([run.mark] if run.mark else []), run.lease])
                raise
        return self._begun(run)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run = self._ended()
        if run is not None:
            try:
                await self._settle(run, done=error is None)
            except BaseException as failed:
                await run.lease.__aexit__(type(failed), failed, failed.__traceback__)
                raise
            await run.lease.__aexit__(kind, error, trace)

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        """Decorate a function: it runs once for each slot, and returns None where it is skipped."""
        made = self._for_call(function, coroutine=True)

        @functools.wraps(function)
        async def once(*args: P.args, **kwargs: P.kwargs) -> R | None:
            async with made(*args, **kwargs) as lease:
                return None if lease is None else await function(*args, **kwargs)

        return once


async def _look(locks: Locks, name: str) -> LockInfo | None:
    with suppress(BackendError):
        return await locks.info(name)
    return None


async def _give_back(acquired: list[Any]) -> None:
    """All of them, even if it is cancelled meanwhile."""
    for count, lease in enumerate(reversed(acquired), 1):
        try:
            with suppress(LocknutError):
                await lease.release()
        except BaseException:
            await _give_back(acquired[:-count])
            raise
