"""The asyncio face of one lock: a name with settings, to be acquired again and again."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from locknut.aio import belonging
from locknut.aio.belonging import Entered, pop_entered
from locknut.aio.lease import Lease, Scope, tell
from locknut.core import forking, inspecting, validation
from locknut.core.acquiring import acquire
from locknut.core.holding import nobody
from locknut.core.losing import on_lost
from locknut.core.releasing import begin_release
from locknut.core.values import LockInfo, Mode
from locknut.errors import AcquireTimeout, LeaseLost, LocknutError
from locknut.faces import misuse
from locknut.faces.misuse import by_halves, for_async_with
from locknut.faces.options import OnLost, checked_on_lost, chosen, timed_out
from locknut.pickling import Named
from locknut.runtimes.loop import coroutine_function

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Caller, Terms


@misuse.answering_acquire
@for_async_with
class Lock(Named):
    """A named lock. It can replace an `asyncio.Lock`, and tasks can share it.

    Re-entrant: the task that holds it may acquire it again, and must release it as often.
    """

    __slots__ = (
        "__weakref__",
        "_client",
        "_entered",
        "_kept",
        "_on_lost",
        "_request",
        "_timeout",
        "_wait",
        "name",
    )

    def __init__(
        self,
        client: Client,
        name: str = "",
        terms: Terms | None = None,
        timeout: validation.Duration | None = None,
        on_lost: OnLost = None,
    ):
        if terms is None:
            raise misuse.made_by(type(self))
        self.name = validation.name(name)
        self._client = client
        self._timeout = timeout
        self._wait = validation.wait(timeout)
        self._on_lost = checked_on_lost(on_lost)
        self._request = client.request(name, terms)
        self._kept: list[Lease] = []
        """What was acquired here: it must outlive a task that ended without releasing (L10)."""
        self._entered: Entered[Lease] = []

    @coroutine_function
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

    @coroutine_function
    def release(self) -> Coroutine[Any, Any, None]:
        """Release what this task holds; raises NotHeld (a RuntimeError) if it holds nothing."""
        caller = belonging.caller_or_none(self._client.runtime)
        return self._release(nobody if caller is None else caller.weakly)

    async def _release(self, caller_ref: Callable[[], Caller | None]) -> None:
        caller = self._client.runtime.caller()
        lease: Any = self._current(caller)
        if (
            lease is None and caller_ref is not caller.weakly
        ):  # a task that was made for this, as above
            lease = self._current(caller_ref())
        if lease is None:
            lease = belonging.left_behind(self._here(), self._request, self._kept)
        if lease is None:
            raise await inspecting.not_held(self._client, self.name, self._request.terms.mode)
        rest = begin_release(lease._client, lease)
        if rest is not None:
            await rest

    def _current(self, caller: Caller | None) -> Lease | None:
        lease: Any = None if caller is None else caller.get(self._request.slot)
        if isinstance(lease, list):
            lease = lease[-1] if lease else None
        if lease is not None and lease.mode is not self._request.terms.mode:
            lease = lease._inner
        found: Lease | None = lease
        return found

    @property
    def held(self) -> bool:
        """Whether this task holds the lock."""
        caller = belonging.caller_or_none(self._client.runtime)
        lease = None if caller is None else caller.get(self._request.slot)
        if isinstance(lease, list):
            return any(each.held for each in lease)
        return lease is not None and bool(lease.held)

    @property
    def owner(self) -> str | None:
        """The `owner` that the lock was made with, if any."""
        return self._request.terms.owner

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
        ours = scope.leave(error)
        if caller is None:
            belonging.abandon([lease])
            return
        try:
            rest = begin_release(lease._client, lease)
            if rest is not None:
                await rest
        except LeaseLost as lost:
            tell(lost, error, ours=ours)

    async def _timed_out(self) -> AcquireTimeout:
        info = await inspecting.holder(self._client, self.name)
        return timed_out(self._client, self._request, self._timeout, info)

    def __reduce__(self) -> tuple[object, ...]:
        terms = self._request.terms
        return type(self), (self._client, self.name, terms, self._timeout, self._on_lost)

    def __repr__(self) -> str:
        terms, held = self._request.terms, "held" if self.held else "not held"
        permits = f"{terms.permits} permit{'s' * (terms.permits > 1)}"
        kind = {Mode.EXCLUSIVE: "", Mode.SHARED: ", reading", Mode.PERMIT: f", {permits}"}
        where = f"{self.name!r}{kind[terms.mode]} on {self._client.backend.name}"
        return f"<{type(self).__module__}.{type(self).__name__} {where}: {held} here>"


_ACQUIRE = Lock._acquire.__code__


@by_halves
class RWLock(Named):
    """Many readers or one writer. Readers cannot starve a writer, and a writer may also read."""

    __slots__ = ("__weakref__", "_read", "_write", "name")

    def __init__(self, read: Lock, write: Lock):
        self.name = read.name
        self._read = read
        self._write = write

    def read(self) -> Lock:
        """Return the lock for reading, which readers hold together."""
        return self._read

    def write(self) -> Lock:
        """Return the lock for writing, which one writer holds alone."""
        return self._write

    async def info(self) -> LockInfo:
        """Return who holds the lock and who waits for it."""
        return await self._read.info()

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._read, self._write)

    def __repr__(self) -> str:
        where = f"{self.name!r} on {self._read._client.backend.name}"
        held = "held" if self._read.held else "not held"
        return f"<{type(self).__module__}.{type(self).__name__} {where}: {held} here>"


class Semaphore(Lock):
    """At most `permits` holders at a time, each with a lease of its own. Not re-entrant.

    Clients may use different limits: each is let in while fewer than its own limit are held.
    """

    __slots__ = ()

    @property
    def permits(self) -> int:
        """How many may hold this semaphore at a time."""
        return self._request.terms.permits
