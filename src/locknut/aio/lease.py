"""The hold, as asyncio code has it: one lease, or several taken together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from locknut.aio import belonging
from locknut.core import acquiring_all, detaching, inspecting, losing, renewing, validation
from locknut.core.callers import nobody
from locknut.core.holding import LeaseCore
from locknut.core.releasing import release
from locknut.core.values import LockInfo
from locknut.errors import LeaseLost
from locknut.faces.lock_base import LeasesBase, LostBase, raise_loss
from locknut.faces.misuse import for_async_with


class Lost(LostBase):
    """The loss of one lease, as something to wait for."""

    __slots__ = ()

    async def wait(self, timeout: validation.Duration | None = None) -> bool:
        """Wait for the loss. Return False if the timeout expired or the lease ended otherwise."""
        belonging.here(self._lease._client)
        return await losing.wait_lost(self._lease._client, self._lease, self._until(timeout))


@for_async_with
class Lease(LeaseCore):
    """One hold of one lock. Leaving a `with` on it releases it."""

    __slots__ = ("_scopes",)

    _scopes: list[Scope]
    """One for each `async with` that was entered and not left yet; unset before the first."""

    @property
    def lost(self) -> Lost:
        """The loss of this hold: `lost.wait(timeout)`, `lost.is_set()`."""
        return Lost(self)

    async def release(self) -> None:
        """Release the lock, from any task. Raises LeaseLost if it was lost in the meantime."""
        belonging.here(self._client)
        await release(self._client, self)

    async def renew(self) -> None:
        """Renew the hold now. Raises unless the engine confirms that it is still ours."""
        belonging.here(self._client)
        await renewing.renew(self._client, self)

    async def info(self) -> LockInfo:
        """Return who holds this lock and who waits for it, with what the engine adds."""
        belonging.here(self._client)
        return await inspecting.info(self._client, self.name)

    async def detach(self, ttl: validation.Duration | None = None) -> str:
        """Let the hold go on without this process. Return a secret text for one `attach()`."""
        belonging.here(self._client)
        seconds = detaching.checked_ttl(self._client.backend, ttl)
        return await detaching.detach(self._client, self, seconds)

    async def __aenter__(self) -> Self:
        self.check()
        scope = Scope(self._client.runtime.caller().task)
        self.on_lost(scope.cancel)
        if not hasattr(self, "_scopes"):
            self._scopes = []
        self._scopes.append(scope)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        scope = self._scopes.pop()
        if belonging.caller_or_none(self._client.runtime) is None:
            belonging.abandon([self])
            return
        await release_on_exit(self, error, scope)


class Scope:
    """The body of an `async with`: cancelled when the hold is lost, as asyncio.timeout does.

    It does not keep its task: the task keeps the lease, whose callbacks lead here.
    """

    __slots__ = ("_before", "_fired", "_task")

    def __init__(self, task: Callable[[], Any]) -> None:
        running: asyncio.Task[Any] | None = task()
        self._task = task
        self._before = 0 if running is None else running.cancelling()
        self._fired = False

    def cancel(self, lease: object) -> None:  # noqa: ARG002  # called as on_lost(lease)
        """Called on the loop when the hold is lost."""
        task: asyncio.Task[Any] | None = self._task()
        if task is not None:
            self._fired = True
            task.cancel("locknut: the lock was lost")

    def exit(self, error: BaseException | None) -> bool:
        """End the body. Return True if our own cancellation ended it."""
        task: asyncio.Task[Any] | None = self._task()
        self._task = nobody
        if not self._fired or task is None or task.done():
            return False
        return task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError)


async def release_on_exit(
    lease: Lease | Leases, error: BaseException | None, scope: Scope | None
) -> None:
    """Release at the end of an `async with`."""
    ours = scope is not None and scope.exit(error)
    try:
        await lease.release()
    except LeaseLost as lost:
        raise_loss(lost, error, ours=ours)


@for_async_with
class Leases(LeasesBase[Lease]):
    """Several leases that were acquired together and are released together."""

    __slots__ = ("_scope",)

    _scope: Scope
    """The body of the `async with` on them; unset before the first."""

    async def release(self) -> None:
        """Release all of them."""
        belonging.here(self._parts[0][0])
        acquiring_all.let_go(self._parts, self._caller())
        await acquiring_all.release_all(self._acquired)

    async def __aenter__(self) -> Self:
        self.check()
        self._scope = self._watched()
        return self

    def _watched(self) -> Scope:
        """Cancel the caller's body when one of them is lost."""
        scope = Scope(self._parts[0][0].runtime.caller().task)
        for lease in self._leases:
            lease.on_lost(scope.cancel)
        return scope

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await release_on_exit(self, error, getattr(self, "_scope", None))
