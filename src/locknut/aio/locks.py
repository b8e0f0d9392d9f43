"""The asyncio client of one engine: what `connect` returns, and what makes locks."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Callable, Coroutine, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from locknut import opening
from locknut.aio import belonging
from locknut.aio.decorator import Decorator, SkippingDecorator, decorator
from locknut.aio.lease import Lease
from locknut.aio.lock_group import LockGroup
from locknut.aio.primitives import Lock, RWLock, Semaphore
from locknut.core import acquiring_all, closing, detaching, inspecting, validation
from locknut.core.callers import Caller, nobody
from locknut.core.history_entries import HistoryEntry
from locknut.core.ports import Backend, Engine, Runtime
from locknut.core.values import Finding, LockInfo, Ping
from locknut.faces import misuse
from locknut.faces.late_names import LateUses, late_names
from locknut.faces.lock_base import returning
from locknut.faces.locks_base import LocksBase
from locknut.runtimes.cpython import mark_coroutine_function
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import run

if TYPE_CHECKING:
    from locknut.aio.barriers import Barrier, Latch  # noqa: F401  # in a text below
    from locknut.aio.leadership import Election  # noqa: F401  # in a text below
    from locknut.aio.scheduled_run import Once  # noqa: F401  # in a text below
    from locknut.core.wait_graph import WaitGraph


@misuse.answering
@misuse.for_async_with
@returning(lock=Lock, rwlock=RWLock, semaphore=Semaphore, all=LockGroup, locked=SkippingDecorator)
@returning(once="Once", election="Election", barrier="Barrier", latch="Latch")
class Locks(
    LocksBase[Lock, RWLock, Semaphore, LockGroup, Decorator, SkippingDecorator],
    LateUses["Once", "Election", "Barrier", "Latch"],
):
    """A client of one engine. It makes locks, and renews the leases on them until `close()`."""

    _lease_type = Lease
    _lock_type = Lock
    _rwlock_type = RWLock
    _semaphore_type = Semaphore
    _group_type = LockGroup
    _decorate = staticmethod(decorator)
    _late = staticmethod(late_names("locknut.aio", "locknut.aio"))

    def __init__(
        self,
        engine: Engine,
        settings: opening.Settings | None = None,
        *,
        runtime: Runtime | None = None,
    ):
        super().__init__(engine, settings, runtime or LoopRuntime())

    @staticmethod
    def _backend_of(engine: Engine, runtime: Runtime) -> Backend:
        return engine.asyncio(runtime)

    async def info(self, name: str) -> LockInfo:
        """Return who holds the lock of this name and who waits for it."""
        belonging.here(self._client)
        return await inspecting.info(self._client, validation.name(name))

    async def list(self, pattern: str | None = None) -> list[LockInfo]:
        """Return the locks that are held or waited for, or those that match "order:*"."""
        belonging.here(self._client)
        return await inspecting.listing(self._client, pattern)

    async def waits_for(self) -> WaitGraph:
        """Return who waits for whom over all locks of this namespace, and the deadlocks."""
        from locknut.core import lookout  # few programs need it

        belonging.here(self._client)
        return await lookout.waits_for([self._client])

    async def history(
        self, pattern: str | None = None, *, since: validation.Duration | None = None
    ) -> builtins.list[HistoryEntry]:
        """Return what happened to the locks here, or to those that match "order:*"; newest last.

        `since` is how far back to look. What is there was written by each Locks that was connected
        with `history=N`, in any process.
        """
        belonging.here(self._client)
        from locknut.core import reading_history  # few programs look back

        back = None if since is None else validation.seconds(since, "since")
        return await reading_history.history(self._client, pattern, back)

    async def force_release(self, name: str, fence: int | None = None, *, reason: str = "") -> bool:
        """Break a hold; with `fence`, only that one. Return False if nobody held the lock.

        `reason` goes into the event and the log; the holder sees it too, with our label.
        """
        belonging.here(self._client)
        from locknut.core import breaking  # few programs break locks

        return await breaking.force_release(self._client, validation.name(name), fence, reason)

    async def ping(self, timeout: validation.Duration = 5.0) -> Ping:
        """Check that the engine works: take a lock and release it within `timeout`.

        Raises BackendUnavailable or another BackendError that says what is wrong. The lock's name
        is `locknut.ping`; simultaneous probes do not wait for each other.
        """
        from locknut.core import pinging  # few programs need it

        belonging.here(self._client)
        return Ping(self.backend, self.place, await pinging.ping(self._client, timeout))

    async def doctor(
        self, timeout: validation.Duration = 10.0, *, ttl: validation.Duration | None = None
    ) -> tuple[Finding, ...]:
        """Look for what makes locks unsafe or slow on this engine: return a Finding for each check.

        It takes and releases the lock of `ping()`, and only looks otherwise. What may not be asked
        is `unknown`, and nothing is raised for it. `ttl`: the shortest that your programs use.
        """
        from locknut.core import examining  # few programs need it

        client = self._client
        belonging.here(client)
        until, shortest = examining.limits(client, timeout, ttl)
        found = await examining.probe(client, until, shortest)
        loop = asyncio.get_running_loop()
        own = loop.run_in_executor(None, lambda: run(examining.ask_engine_aside(client, until)))
        return *found, *await own

    @mark_coroutine_function
    def attach(self, text: str) -> Coroutine[Any, Any, Lease]:
        """Take over a hold that was detached elsewhere. Only the first to attach it succeeds."""
        caller = belonging.caller_or_none(self._client.runtime)
        return self._attach(nobody if caller is None else caller.weakly, text)

    async def _attach(self, caller_ref: Callable[[], Caller | None], text: str) -> Lease:
        acquired: list[Any] = []
        try:
            lease: Any = await detaching.attach(self._client, text, acquired)
            if caller_ref is not lease._caller:
                belonging.pass_on(self._client, acquired, caller_ref(), _ATTACH)
        except BaseException:
            await acquiring_all.roll_back(acquired)
            raise
        return lease  # type: ignore[no-any-return]  # as acquire

    async def close(self) -> None:
        """Release all leases, wake all waiters with an error, and close the connections."""
        if not belonging.loop_is_gone(self._client):  # else there is only this one to do it
            belonging.here(self._client)
        await closing.close(self._client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


_ATTACH = Locks._attach.__code__


@misuse.answered
def connect(  # noqa: PLR0913  # its options, each by name
    url: str | Any | None = None,
    *,
    namespace: str | None = None,
    label: str = "",
    require: Iterable[str] = (),
    cohort: int = 16,
    id: str | None = None,  # noqa: A002  # the option's own name
    deadlocks: Literal["ignore", "raise"] = "ignore",
    history: int = 0,
) -> Locks:
    """Return a client of the engine at `url` (default: $LOCKNUT_URL, else `file:`).

    Instead of a URL you can pass a client of the engine's driver, such as `redis.Redis(...)`: its
    settings are used, its connections are not. Several servers with a URL each are an address, such
    as `locknut.redlock.Redlock([...])`.

    With `deadlocks="raise"` a caller that holds one lock and waits for another looks after a few
    seconds whether it waits in a circle; of each circle one member gets DeadlockDetected.
    """
    required = validation.required(require)
    settings = opening.Settings(namespace, label, required, cohort, id, deadlocks, history)
    return Locks(*opening.open_url(url, settings))


async def waits_for(*several: Locks) -> WaitGraph:
    """Return who waits for whom, in all of these Locks together (default: those of `default()`).

    A deadlock may lead through several engines: it is seen only if all of them are looked at.
    """
    from locknut import aio
    from locknut.core import lookout  # few programs need it

    clients = [each._client for each in several or (aio.default(),)]
    for each in clients:
        belonging.here(each)
    return await lookout.waits_for(clients)
