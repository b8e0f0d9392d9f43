"""The asyncio face of one lock: a name with settings, to be acquired again and again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from locknut.aio import belonging
from locknut.aio.belonging import Entered, pop_entered
from locknut.aio.lease import Lease, Scope
from locknut.core import forking, inspecting, naming_holder, validation
from locknut.core.acquiring import acquire
from locknut.core.callers import nobody
from locknut.core.losing import on_lost
from locknut.core.releasing import begin_release
from locknut.core.values import LockInfo
from locknut.errors import AcquireTimeout, LeaseLost, LocknutError
from locknut.faces import misuse
from locknut.faces.lock_base import LockBase, RWLockBase, SemaphoreBase, raise_loss, returning
from locknut.faces.misuse import by_halves, for_async_with
from locknut.faces.options import OnLost, chosen, timed_out
from locknut.runtimes.cpython import mark_coroutine_function

if TYPE_CHECKING:
    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.lock_request import LockOptions


@misuse.answering_acquire
@for_async_with
class Lock(LockBase):
    """A named lock. It can replace an `asyncio.Lock`, and tasks can share it.

    Re-entrant: the task that holds it may acquire it again, and must release it as often.
    """

    __slots__ = ("_entered", "_kept")

    def __init__(
        self,
        client: Client,
        name: str = "",
        options: LockOptions | None = None,
        timeout: validation.Duration | None = None,
        on_lost: OnLost = None,
    ):
        super().__init__(client, name, options, timeout, on_lost)
        self._kept: list[Lease] = []
        """What was acquired here: it must outlive a task that ended without releasing (L10)."""
        self._entered: Entered[Lease] = []

    @mark_coroutine_function
    def acquire(
        self, blocking: bool = True, timeout: validation.Duration | None = None
    ) -> Coroutine[Any, Any, Lease | None]:  # threading's own signature
        """Return the lease, or None if the timeout expired first (`timeout=-1` waits forever)."""
        caller = belonging.caller_or_none(self._client.runtime)
        return self._acquire(nobody if caller is None else caller.weakly, blocking, timeout)

    async def _acquire(
        self,
        caller_ref: Callable[[], Caller | None],
        blocking: object,
        timeout: validation.Duration | None,
    ) -> Lease | None:
        acquired: list[Any] = []
        client = self._here()
        caller = client.runtime.caller()
        wait = self._wait
        try:
            if timeout is not None or not blocking:
                wait = validation.wait(chosen(blocking, timeout, self._timeout))
            await acquire(client, self._request, caller, self._until(wait), acquired)
            if not acquired:
                return None
            lease = self._acquired(acquired[0])
            self._keep(lease)
            if caller_ref is not caller.weakly:
                belonging.pass_on(client, acquired, caller_ref(), _ACQUIRE)
        except BaseException:
            await self._undo(acquired)
            raise
        return lease

    async def _acquire_into(self, acquired: list[Any]) -> None:
        lease = await self.acquire()
        if lease is not None:
            acquired.append(lease)

    def _here(self) -> Client:
        """In a forked child another client than in the parent."""
        client = self._client
        if client.closed:
            client = self._client = forking.here(client)
        return client

    def _until(self, wait: float) -> float:
        return wait if wait == validation.FOREVER else self._client.runtime.now() + wait

    def _acquired(self, lease: Lease) -> Lease:
        if self._on_lost is not None and callable(self._on_lost) and lease._count == 1:
            lease.on_lost(self._on_lost)
        return lease

    def _keep(self, lease: Lease) -> None:
        kept = self._kept
        if kept and (len(kept) > 1 or kept[0]._ended is None):
            kept = [each for each in kept if each._ended is None and each is not lease]
            self._kept = [*kept, lease]
        else:  # as a rule: it was the only one, and is over
            self._kept = [lease]

    async def _undo(self, acquired: list[Any]) -> None:
        """Interrupted (Ctrl-C) after the grant: nobody else will release it."""
        for lease in acquired:
            with suppress(LocknutError):
                await lease.release()

    @mark_coroutine_function
    def release(self) -> Coroutine[Any, Any, None]:
        """Release what this task holds; raises NotHeld (a RuntimeError) if it holds nothing."""
        caller = belonging.caller_or_none(self._client.runtime)
        return self._release(nobody if caller is None else caller.weakly)

    async def _release(self, caller_ref: Callable[[], Caller | None]) -> None:
        caller = self._client.runtime.caller()
        lease: Any = self._find(caller)
        if (
            lease is None and caller_ref is not caller.weakly
        ):  # a task that was made for this, as above
            lease = self._find(caller_ref())
        if lease is None:
            lease = belonging.left_behind(self._here(), self._request, self._kept)
        if lease is None:
            raise await naming_holder.not_held(self._client, self.name, self._request.options.mode)
        rest = begin_release(lease._client, lease)
        if rest is not None:
            await rest

    def _caller(self) -> Caller | None:
        return belonging.caller_or_none(self._client.runtime)

    async def locked(self) -> bool:
        """Return whether anybody holds the lock, in this process or elsewhere."""
        return (await self.info()).locked

    async def info(self) -> LockInfo:
        """Return who holds the lock and who waits for it."""
        belonging.here(self._client)
        return await inspecting.info(self._client, self.name)

    async def __aenter__(self) -> Lease:
        acquired: list[Any] = []
        client = self._here()
        caller = client.runtime.caller()
        try:
            await acquire(client, self._request, caller, self._until(self._wait), acquired)
            if not acquired:
                raise await self._timed_out()
            lease = self._acquired(acquired[0])
            scope = Scope(caller.task)
            if self._on_lost != "ignore":
                on_lost(client, lease, scope.cancel)
            self._entered.append((lease, scope))
        except BaseException:
            await self._undo(acquired)
            raise
        return lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        caller = belonging.caller_or_none(self._client.runtime)
        lease, scope = pop_entered(self._entered, self._client.runtime, caller)
        ours = scope.exit(error)
        if caller is None:
            belonging.abandon([lease])
            return
        try:
            rest = begin_release(lease._client, lease)
            if rest is not None:
                await rest
        except LeaseLost as lost:
            raise_loss(lost, error, ours=ours)

    async def _timed_out(self) -> AcquireTimeout:
        info = await naming_holder.holder(self._client, self.name)
        return timed_out(self._client, self._request, self._timeout, info)


_ACQUIRE = Lock._acquire.__code__


@by_halves
@returning(read=Lock, write=Lock)
class RWLock(RWLockBase[Lock]):
    """Many readers or one writer. Readers cannot starve a writer, and a writer may also read."""

    __slots__ = ()

    async def info(self) -> LockInfo:
        """Return who holds the lock and who waits for it."""
        return await self._read.info()


class Semaphore(Lock, SemaphoreBase):
    """At most `permits` holders at a time, each with a lease of its own. Not re-entrant.

    Clients may use different limits: each is let in while fewer than its own limit are held.
    """

    __slots__ = ()
