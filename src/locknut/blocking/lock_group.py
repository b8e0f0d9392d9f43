"""The blocking face of several locks that are taken as one."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from locknut.blocking.lease import (
    Leases,
    on_interrupt,
    pop_entered,
    release_on_exit,
    restore_entered,
)
from locknut.blocking.primitives import Lock
from locknut.blocking.tasks import note_task, running_task
from locknut.core import acquiring_all, validation
from locknut.faces.lock_base import LockGroupBase, parts_of
from locknut.faces.misuse import answering_acquire, for_with
from locknut.faces.options import chosen, until
from locknut.runtimes.threads import run


@answering_acquire
@for_with
class LockGroup(LockGroupBase):
    """Several locks that are acquired as one: all or none, in one global order."""

    __slots__ = ()

    def acquire(
        self, blocking: bool = True, timeout: validation.Duration | None = None
    ) -> Leases | None:  # as Lock.acquire
        """Return all the leases, or None if the timeout expired first."""
        acquired: list[Any] = []
        try:
            return self._acquire(chosen(blocking, timeout, self._timeout), acquired)
        except BaseException:
            run(acquiring_all.roll_back(acquired))  # Ctrl-C after the last grant
            raise

    def _acquire(self, timeout: validation.Duration | None, acquired: list[Any]) -> Leases | None:
        deadline = until(self._parts[0][0], timeout)
        if not run(acquiring_all.acquire_all(self._parts, deadline, acquired)):
            return None
        task = running_task(again=False)
        if task is not None:
            for lease in acquired:
                note_task(lease, task)
        return Leases(self._parts, acquired)

    def __enter__(self) -> Leases:
        acquired: list[Any] = []
        caller = self._runtime.caller()
        before = caller.get(self)
        try:
            leases = self._acquire(self._timeout, acquired)
            if leases is None:
                raise self._timed_out()
            caller[self] = (leases, before)
        except BaseException:
            restore_entered(self, caller, before)
            run(acquiring_all.roll_back(acquired))
            raise
        return leases

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leases = None
        try:
            leases = pop_entered(self, self._runtime)
            release_on_exit(leases, error)
        except BaseException as raised:
            on_interrupt(raised, self._exit_again, leases)
            raise

    def _exit_again(self, leases: Leases | None) -> None:
        (leases or pop_entered(self, self._runtime))._release_again()


def all_of(*locks: Lock, timeout: validation.Duration | None = None) -> LockGroup:
    """Take locks of several engines at once: all or none, in one global order."""
    return LockGroup(parts_of(locks, Lock), timeout)
