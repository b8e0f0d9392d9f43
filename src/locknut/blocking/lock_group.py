"""The blocking face of several locks that are taken as one."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from locknut import pickling
from locknut.blocking.lease import Leases, leave, on_interrupt
from locknut.blocking.primitives import Lock, Semaphore
from locknut.blocking.tasks import note_task, running_task
from locknut.core import acquiring_all, validation
from locknut.errors import AcquireTimeout, ConfigurationError
from locknut.faces.misuse import answering_acquire, for_with
from locknut.faces.options import chosen, pop_entered, restore_entered, timed_out, until
from locknut.runtimes.threads import run

if TYPE_CHECKING:
    from locknut.core.ports import Runtime


@answering_acquire
@for_with
class Together(pickling.Named):
    """Several locks that are taken as one: all or none, in one global order."""

    __slots__ = ("__weakref__", "_parts", "_timeout")

    def __init__(self, parts: list[acquiring_all.Part], timeout: validation.Duration | None):
        validation.wait(timeout)
        self._parts = acquiring_all.in_order(parts)
        self._timeout = timeout

    @property
    def _runtime(self) -> Runtime:
        return self._parts[0][0].runtime

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they are taken."""
        return [client.bare(request.key) for client, request in self._parts]

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

    def _timed_out(self) -> AcquireTimeout:
        client, request = self._parts[-1]
        error = timed_out(client, request, self._timeout, None)
        error.key = " + ".join(self.names)
        return error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        leases = None
        try:
            leases = pop_entered(self, self._runtime)
            leave(leases, error)
        except BaseException as raised:
            on_interrupt(raised, self._leave_again, leases)
            raise

    def _leave_again(self, leases: Leases | None) -> None:
        (leases or pop_entered(self, self._runtime))._release_again()

    def __reduce__(self) -> tuple[object, ...]:
        parts = [
            (client, client.bare(request.key), request.terms) for client, request in self._parts
        ]
        return pickling.together, (type(self), parts, self._timeout)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.names}>"


def all_of(*locks: Lock, timeout: validation.Duration | None = None) -> Together:
    """Take locks of several engines at once: all or none, in one global order."""
    for lock in locks:
        if not isinstance(lock, Lock) or isinstance(lock, Semaphore):
            raise ConfigurationError(f"all_of takes locks of this face, got {lock!r}")
    return Together([(lock._client, lock._request) for lock in locks], timeout)
