"""The blocking face of `once`: at most one run for each slot of a schedule, across all hosts."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from locknut.errors import BackendError, LocknutError
from locknut.faces.misuse import for_with
from locknut.faces.once_base import AGAIN, DONE, LATE, RUNNING, OnceBase, Run, by_whom

if TYPE_CHECKING:
    from locknut.blocking.lease import Lease
    from locknut.blocking.locks import Locks
    from locknut.core.values import LockInfo
    from locknut.faces.slots import Slot

P = ParamSpec("P")
R = TypeVar("R")


@for_with
class Once(OnceBase["Lease"]):
    """At most one run for each slot: `with` gives a lease, or None where nothing is to be done."""

    __module__ = "locknut"  # in reprs: users know no other place

    @staticmethod
    def _caller() -> object:
        return threading.get_ident()

    def acquire(self) -> Lease | None:
        """Begin the run of this slot: return its lease, or None if it is not to be run here."""
        run = self._begin()
        return None if run is None else self._begun(run)

    def _begin(self) -> Run[Lease] | None:
        locks = self._locks()
        slot = self.check_engine(locks)._slot()
        acquired: list[Lease] = []
        why = LATE if self._is_late(slot) else ""
        try:
            why = why or self._take(locks, slot, acquired)
        except BaseException:
            _give_back(acquired)
            raise
        if not why:
            *marks, lease = acquired
            return Run(lease, marks[0] if marks else None, slot)
        _give_back(acquired)
        self._skipped(locks, slot, why)
        return None

    def _take(self, locks: Locks, slot: Slot, acquired: list[Lease]) -> str:
        """Take the slot and the lock of the name; return why not, if they are not to be had."""
        key = slot.key(self.name)
        of_slot = locks.lock(key, self._ttl, timeout=0)
        if of_slot.held:
            return AGAIN
        mark = of_slot.acquire()
        if mark is None:
            return DONE.format(by_whom(_look(locks, key)))
        acquired.append(mark)
        lease = locks.lock(self.name, self._ttl, timeout=0, max_hold=self._at_most).acquire()
        if lease is None:
            return RUNNING.format(by_whom(_look(locks, self.name)))
        acquired.append(lease)
        if self._is_late(slot):
            return LATE
        if not self._retry:  # from here on the slot is taken, whatever becomes of us
            mark.detach(self._left(locks, slot))
            acquired.remove(mark)
        return ""

    def release(self, *, done: bool = True) -> None:
        """End the run. With `retry`, a slot that is not `done` is free for another run."""
        run = self._ended()
        if run is not None:
            try:
                self._settle(run, done=done)
            except BaseException:
                _give_back([run.lease])
                raise
            run.lease.release()

    def _settle(self, run: Run[Lease], *, done: bool) -> None:
        """Say what became of the slot, while the lock of the name is still held."""
        if run.mark is not None and done:
            run.mark.detach(self._left(self._locks(), run.slot))
        elif run.mark is not None:
            _give_back([run.mark])

    def __enter__(self) -> Lease | None:
        return self._begun(self._begin())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        run = self._ended()
        if run is not None:
            try:
                self._settle(run, done=error is None)
            except BaseException as failed:
                run.lease.__exit__(type(failed), failed, failed.__traceback__)
                raise
            run.lease.__exit__(kind, error, trace)

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | None]:
        """Decorate a function: it runs once for each slot, and returns None where it is skipped."""
        made = self._for_call(function, coroutine=False)

        @functools.wraps(function)
        def once(*args: P.args, **kwargs: P.kwargs) -> R | None:
            with made(*args, **kwargs) as lease:
                return None if lease is None else function(*args, **kwargs)

        return once


def _look(locks: Locks, name: str) -> LockInfo | None:
    with suppress(BackendError):
        return locks.info(name)
    return None


def _give_back(acquired: list[Any]) -> None:
    """All of them, even if it is interrupted (Ctrl-C) meanwhile."""
    for count, lease in enumerate(reversed(acquired), 1):
        try:
            with suppress(LocknutError):
                lease.release()
        except BaseException:
            _give_back(acquired[:-count])
            raise
