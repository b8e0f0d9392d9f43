"""The hold, as asyncio code has it: one lease, or several taken together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from locknut.aio import belonging
from locknut.core import acquiring_all, detaching, inspecting, losing, validation
from locknut.core.holding import LeaseCore, nobody
from locknut.core.releasing import release
from locknut.core.values import LockInfo, State
from locknut.errors import LeaseLost
from locknut.faces.misuse import for_async_with


class Lost:
    """The loss of one lease, as something to wait for."""

    __slots__ = ("_lease",)

    def __init__(self, lease: Lease):
        self._lease = lease

    def is_set(self) -> bool:
        """Whether the hold was lost."""
        return self._lease.state is State.LOST

    def __repr__(self) -> str:
        lease = self._lease
        come = "set" if lease._ended is State.LOST else "not set"
        return f"<{type(self).__name__} of {lease.name!r} on {lease.backend}: {come}>"

    async def wait(self, timeout: validation.Duration | None = None) -> bool:
        """Wait for the loss; False when the time is up or the lease ended in another way."""
        belonging.here(self._lease._client)
        until = self._lease._client.runtime.now() + validation.wait(timeout)
        return await losing.wait_lost(self._lease._client, self._lease, until)


@for_async_with
class Lease(LeaseCore):
    """One hold of one lock. Leaving a `with` on it releases it."""

    __slots__ = ("_scopes",)

    _scopes: list[Scope]
    """Of each `async with` on it that was entered and not left yet; not there before the first."""

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
        await inspecting.renew(self._client, self)

    async def info(self) -> LockInfo:
        """Return who holds this lock and who waits for it; on `redlock:`, what each node says."""
        belonging.here(self._client)
        return await inspecting.info(self._client, self.name)

    async def detach(self, ttl: validation.Duration | None = None) -> str:
        """Let the hold go on without this process. Return a secret text for one `attach`."""
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
        await leave(self, error, scope)


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

    def leave(self, error: BaseException | None) -> bool:
        """The body is over: True if what ended it was our own cancellation."""
        task: asyncio.Task[Any] | None = self._task()
        self._task = nobody
        if not self._fired or task is None or task.done():
            return False
        return task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError)


async def leave(lease: Lease | Leases, error: BaseException | None, scope: Scope | None) -> None:
    """Release at the end of an `async with`."""
    ours = scope is not None and scope.leave(error)
    try:
        await lease.release()
    except LeaseLost as lost:
        tell(lost, error, ours=ours)


def tell(lost: LeaseLost, error: BaseException | None, *, ours: bool) -> None:
    """A loss is raised at the end of an `async with`, but never in place of the body's own error;
    a cancellation of ours turns into the LeaseLost it stands for.
    """
    if error is None:
        raise lost
    if ours:
        raise lost from error
    error.add_note(f"locknut: {lost}")


@for_async_with
class Leases:
    """Several holds that were taken together and are released together."""

    __slots__ = ("_acquired", "_caller", "_leases", "_parts", "_scope")

    def __init__(self, parts: list[acquiring_all.Part], acquired: list[Any]):
        self._parts = parts
        self._acquired = acquired
        self._leases: tuple[Lease, ...] = tuple(acquired)
        self._caller = self._leases[0]._caller
        self._scope: Scope | None = None

    @property
    def fences(self) -> dict[str, int]:
        """The fence of each name."""
        return {lease.name: lease.fence for lease in self._leases}

    @property
    def held(self) -> bool:
        """Whether all of them are still held."""
        return all(lease.held for lease in self._leases)

    @property
    def remaining(self) -> float:
        """How many seconds all of them are sure to last."""
        return min(lease.remaining for lease in self._leases)

    def check(self) -> None:
        """Raise LeaseLost unless all of them are still held."""
        for lease in self._leases:
            lease.check()

    async def release(self) -> None:
        """Release all of them."""
        belonging.here(self._parts[0][0])
        acquiring_all.let_go(self._parts, self._caller())
        await acquiring_all.release_all(self._acquired)

    __reduce__ = validation.refuse_copy

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {acquiring_all.shown(self._leases)}>"

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases)

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
        await leave(self, error, self._scope)
