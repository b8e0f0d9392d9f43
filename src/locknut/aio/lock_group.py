"""The asyncio face of several locks that are taken as one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from locknut import pickling
from locknut.aio import belonging
from locknut.aio.belonging import Entered, pop_entered
from locknut.aio.lease import Leases, leave
from locknut.aio.primitives import Lock, Semaphore
from locknut.core import acquiring_all, validation
from locknut.core.holding import nobody
from locknut.errors import AcquireTimeout, ConfigurationError
from locknut.faces.misuse import answering_acquire, for_async_with
from locknut.faces.options import chosen, timed_out, until
from locknut.runtimes.loop import coroutine_function

if TYPE_CHECKING:
    from locknut.core.holding import Caller
    from locknut.core.ports import Runtime


@answering_acquire
@for_async_with
class Together(pickling.Named):
    """Several locks that are taken as one: all or none, in one global order."""

    __slots__ = ("__weakref__", "_entered", "_parts", "_timeout")

    def __init__(self, parts: list[acquiring_all.Part], timeout: validation.Duration | None):
        validation.wait(timeout)
        self._parts = acquiring_all.in_order(parts)
        self._timeout = timeout
        self._entered: Entered[Leases] = []

    @property
    def _runtime(self) -> Runtime:
        return self._parts[0][0].runtime

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they are taken."""
        return [client.bare(request.key) for client, request in self._parts]

    @coroutine_function
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

    def _timed_out(self) -> AcquireTimeout:
        client, request = self._parts[-1]
        error = timed_out(client, request, self._timeout, None)
        error.key = " + ".join(self.names)
        return error

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
        await leave(leases, error, scope)

    def __reduce__(self) -> tuple[object, ...]:
        parts = [
            (client, client.bare(request.key), request.terms) for client, request in self._parts
        ]
        return pickling.together, (type(self), parts, self._timeout)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.names}>"


_ACQUIRE_ALL = Together._acquire_for.__code__


def all_of(*locks: Lock, timeout: validation.Duration | None = None) -> Together:
    """Take locks of several engines at once: all or none, in one global order."""
    for lock in locks:
        if not isinstance(lock, Lock) or isinstance(lock, Semaphore):
            raise ConfigurationError(f"all_of takes locks of this face, got {lock!r}")
    return Together([(lock._client, lock._request) for lock in locks], timeout)
