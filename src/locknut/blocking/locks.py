"""The blocking client of one engine: what `connect` returns, and what makes locks."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from locknut import opening
from locknut.blocking.decorator import Decorator, SkippingDecorator, decorator
from locknut.blocking.lease import Lease, on_interrupt
from locknut.blocking.lock_group import LockGroup
from locknut.blocking.primitives import Lock, RWLock, Semaphore
from locknut.core import acquiring_all, closing, detaching, inspecting, validation
from locknut.core.history_entries import HistoryEntry
from locknut.core.ports import Backend, Engine, Runtime
from locknut.core.values import Finding, LockInfo, Ping
from locknut.faces import misuse
from locknut.faces.late_names import LateUses, late_names
from locknut.faces.lock_base import returning
from locknut.faces.locks_base import LocksBase
from locknut.runtimes.threads import ThreadRuntime, run

if TYPE_CHECKING:
    from locknut.blocking.barriers import Barrier, Latch  # noqa: F401  # in a text below
    from locknut.blocking.leadership import Election  # noqa: F401  # in a text below
    from locknut.blocking.scheduled_run import Once  # noqa: F401  # in a text below
    from locknut.core.wait_graph import WaitGraph


@misuse.answering
@misuse.for_with
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
    _late = staticmethod(late_names("locknut", "locknut.blocking"))

    def __init__(
        self,
        engine: Engine,
        settings: opening.Settings | None = None,
        *,
        runtime: Runtime | None = None,
    ):
        super().__init__(engine, settings, runtime or ThreadRuntime())

    @staticmethod
    def _backend_of(engine: Engine, runtime: Runtime) -> Backend:
        return engine.blocking(runtime)

    def info(self, name: str) -> LockInfo:
        """Return who holds the lock of this name and who waits for it."""
        return run(inspecting.info(self._client, validation.name(name)))

    def list(self, pattern: str | None = None) -> list[LockInfo]:
        """Return the locks that are held or waited for, or those that match "order:*"."""
        return run(inspecting.listing(self._client, pattern))

    def waits_for(self) -> WaitGraph:
        """Return who waits for whom over all locks of this namespace, and the deadlocks."""
        from locknut.core import lookout  # few programs need it

        return run(lookout.waits_for([self._client]))

    def history(
        self, pattern: str | None = None, *, since: validation.Duration | None = None
    ) -> builtins.list[HistoryEntry]:
        """Return what happened to the locks here, or to those that match "order:*"; newest last.

        `since` is how far back to look. What is there was written by each Locks that was connected
        with `history=N`, in any process.
        """
        from locknut.core import reading_history  # few programs look back

        back = None if since is None else validation.seconds(since, "since")
        return run(reading_history.history(self._client, pattern, back))

    def force_release(self, name: str, fence: int | None = None, *, reason: str = "") -> bool:
        """Break a hold; with `fence`, only that one. Return False if nobody held the lock.

        `reason` goes into the event and the log; the holder sees it too, with our label.
        """
        from locknut.core import breaking  # few programs break locks

        return run(breaking.force_release(self._client, validation.name(name), fence, reason))

    def ping(self, timeout: validation.Duration = 5.0) -> Ping:
        """Check that the engine works: take a lock and release it within `timeout`.

        Raises BackendUnavailable or another BackendError that says what is wrong. The lock's name
        is `locknut.ping`; simultaneous probes do not wait for each other.
        """
        from locknut.core import pinging  # few programs need it

        return Ping(self.backend, self.place, run(pinging.ping(self._client, timeout)))

    def doctor(
        self, timeout: validation.Duration = 10.0, *, ttl: validation.Duration | None = None
    ) -> tuple[Finding, ...]:
        """Look for what makes locks unsafe or slow on this engine: return a Finding for each check.

        It takes and releases the lock of `ping()`, and only looks otherwise. What may not be asked
        is `unknown`, and nothing is raised for it. `ttl`: the shortest that your programs use.
        """
        from locknut.core import examining  # few programs need it

        client = self._client
        until, shortest = examining.limits(client, timeout, ttl)
        found = run(examining.probe(client, until, shortest))
        return *found, *run(examining.ask_engine(client, client.backend, client.runtime, until))

    def attach(self, text: str) -> Lease:
        """Take over a hold that was detached elsewhere. Only the first to attach it succeeds."""
        acquired: list[Any] = []
        try:
            return run(detaching.attach(self._client, text, acquired))  # type: ignore[return-value]  # as acquire
        except BaseException:
            run(acquiring_all.roll_back(acquired))
            raise

    def close(self) -> None:
        """Release all leases, wake all waiters with an error, and close the connections."""
        try:
            run(closing.close(self._client))
        except BaseException as error:
            on_interrupt(error, self._close_again)
            raise

    def _close_again(self) -> None:
        """Finish an interrupted close."""
        run(closing.close_again(self._client))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


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


def waits_for(*several: Locks) -> WaitGraph:
    """Return who waits for whom, in all of these Locks together (default: those of `default()`).

    A deadlock may lead through several engines: it is seen only if all of them are looked at.
    """
    import locknut
    from locknut.core import lookout  # few programs need it

    return run(lookout.waits_for([each._client for each in several or (locknut.default(),)]))
