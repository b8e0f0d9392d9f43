"""The asyncio face of several locks that are taken as one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from locknut.aio import belonging
from locknut.aio.belonging import Entered, pop_entered
from locknut.aio.lease import Leases, release_on_exit
from locknut.aio.primitives import Lock
from locknut.core import acquiring_all, validation
from locknut.core.callers import nobody
from locknut.faces.lock_base import LockGroupBase, parts_of
from locknut.faces.misuse import answering_acquire, for_async_with
from locknut.faces.options import chosen, until
from locknut.runtimes.cpython import mark_coroutine_function

if TYPE_CHECKING:
    from locknut.core.callers import Caller


@answering_acquire
@for_async_with
class LockGroup(LockGroupBase):
    """Several locks that are acquired as one: all or none, in one global order."""

    __slots__ = ("_entered",)

    def __init__(self, parts: list[acquiring_all.Part], timeout: validation.Duration | None):
        super().__init__(parts, timeout)
        self._entered: Entered[Leases] = []

    @mark_coroutine_function
    def acquire(
        self, blocking: bool = True, timeout: validation.Duration | None = None
    ) -> Coroutine[Any, Any, Leases | None]:  # as Lock.acquire
        """Return all the leases, or None if the timeout expired first."""
        caller = belonging.caller_or_none(self._runtime)
        return self._acquire_for(nobody if caller is None else caller.weakly, blocking, timeout)

    async def _acquire_for(
        self,
        caller_ref: Callable[[], Caller | None],
        blocking: object,
        timeout: validation.Duration | None,
    ) -> Leases | None:
        acquired: list[Any] = []
        try:
            leases = await self._acquire(chosen(blocking, timeout, self._timeout), acquired)
            if leases is not None and caller_ref is not leases._caller:
                belonging.pass_on(acquired[0]._client, acquired, caller_ref(), _ACQUIRE_ALL)
                leases._caller = leases._leases[0]._caller
        except BaseException:
            await acquiring_all.roll_back(acquired)
            raise
        return leases

    async def _acquire(
        self, timeout: validation.Duration | None, acquired: list[Any]
    ) -> Leases | None:
        deadline = until(self._parts[0][0], timeout)
        if not await acquiring_all.acquire_all(self._parts, deadline, acquired):
            return None
        return Leases(self._parts, acquired)

    async def __aenter__(self) -> Leases:
        acquired: list[Any] = []
        try:
            leases = await self._acquire(self._timeout, acquired)
            if leases is None:
                raise self._timed_out()
            self._entered.append((leases, leases._watched()))
        except BaseException:
            await acquiring_all.roll_back(acquired)
            raise
        return leases

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        caller = belonging.caller_or_none(self._runtime)
        leases, scope = pop_entered(self._entered, self._runtime, caller)
        if caller is None:
            belonging.abandon(leases)
            return
        await release_on_exit(leases, error, scope)


_ACQUIRE_ALL = LockGroup._acquire_for.__code__


def all_of(*locks: Lock, timeout: validation.Duration | None = None) -> LockGroup:
    """Take locks of several engines at once: all or none, in one global order."""
    return LockGroup(parts_of(locks, Lock), timeout)
