"""The blocking face of one lock: a name with settings, to be acquired again and again."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from locknut.blocking.lease import Lease, on_interrupt, tell
from locknut.blocking.tasks import note_task, refuse_other_task, running_task
from locknut.core import inspecting, validation
from locknut.core.acquiring import acquire
from locknut.core.forking import here
from locknut.core.releasing import begin_release, release_again
from locknut.core.validation import FOREVER
from locknut.core.values import LockInfo, Mode
from locknut.errors import AcquireTimeout, LeaseLost, LocknutError
from locknut.faces import misuse
from locknut.faces.misuse import by_halves, for_with
from locknut.faces.options import (
    OnLost,
    checked_on_lost,
    chosen,
    exchanged,
    pop_entered,
    restore_entered,
    timed_out,
)
from locknut.pickling import Named
from locknut.runtimes.threads import run, run_void

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Caller, Terms


@misuse.answering_acquire
@for_with
class Lock(Named):
    """A named lock. It can replace a `threading.RLock`, and threads can share it.

    Re-entrant: the thread that holds it may acquire it again, and must release it as often.
    """

    __slots__ = ("__weakref__", "_client", "_on_lost", "_request", "_timeout", "_wait", "name")

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

    def acquire(
        self, blocking: bool = True, timeout: validation.Duration | None = None
    ) -> Lease | None:  # threading's own signature
        """Return the lease, or None if the timeout expired first (`timeout=-1` waits forever)."""
        acquired: list[Any] = []
        caller = self._client.runtime.caller()
        try:
            if blocking and timeout is None:
                return self._acquire(self._wait, caller, acquired)
            return self._acquire(
                validation.wait(chosen(blocking, timeout, self._timeout)), caller, acquired
            )
        except BaseException:
            self._undo(acquired)
            raise

    def _acquire(self, wait: float, caller: Caller, acquired: list[Any]) -> Lease | None:
        client = self._client
        if client.closed:
            client = self._client = here(client)
        deadline = wait if wait == FOREVER else client.runtime.now() + wait
        task = running_task(again=self._request.slot in caller)
        if task is not None:
            refuse_other_task(client, self._request, caller, task)
        run_void(acquire(client, self._request, caller, deadline, acquired))
        if not acquired:
            return None
        lease: Lease = acquired[0]
        if task is not None:
            note_task(lease, task)
        if self._on_lost is not None and callable(self._on_lost) and lease._count == 1:
            lease.on_lost(self._on_lost)
        return lease

    def _undo(self, acquired: list[Any]) -> None:
        """Interrupted (Ctrl-C) after the grant: nobody else will release it."""
        for lease in acquired:
            with suppress(LocknutError):
                lease.release()

    def release(self) -> None:
        """Release what this thread holds; raises NotHeld (a RuntimeError) if it holds nothing."""
        lease, count = None, 0
        try:
            lease = self._current()
            count = lease._count
            run_void(begin_release(lease._client, lease))
        except BaseException as error:
            on_interrupt(error, self._release_again, lease, count)
            raise

    def _release_again(self, lease: Lease | None, count: int) -> None:
        with suppress(LocknutError):
            lease = lease or self._current()
            run(release_again(lease._client, lease, count or lease._count))

    def _current(self) -> Lease:
        lease = self._client.runtime.caller().get(self._request.slot)
        if isinstance(lease, list):
            lease = lease[-1] if lease else None
        if lease is not None and lease.mode is not self._request.terms.mode:
            lease = lease._inner
        if lease is None:
            raise run(inspecting.not_held(self._client, self.name, self._request.terms.mode))
        found: Lease = lease
        return found

    @property
    def held(self) -> bool:
        """Whether this thread holds the lock."""
        lease = self._client.runtime.caller().get(self._request.slot)
        if isinstance(lease, list):
            return any(each.held for each in lease)
        return lease is not None and bool(lease.held)

    @property
    def owner(self) -> str | None:
        """The `owner` that the lock was made with, if any."""
        return self._request.terms.owner

    # What `threading.Condition` asks of a re-entrant lock.

    def _is_owned(self) -> bool:
        return self.held

    def _release_save(self) -> tuple[int, Lease]:
        lease = self._current()
        entered = lease._count
        for _ in range(entered):
            lease.release()
        return entered, lease

    def _acquire_restore(self, saved: tuple[int, Lease]) -> None:
        entered, before = saved
        lease = None
        for _ in range(entered):
            lease = self.acquire(timeout=-1)
        caller = self._client.runtime.caller()
        if self in caller:  # the `with` around it leaves with the new hold
            caller[self] = exchanged(caller[self], before, lease)

    def locked(self) -> bool:
        """Return whether anybody holds the lock, in this process or elsewhere."""
        return self.info().locked

    def info(self) -> LockInfo:
        """Return who holds the lock and who waits for it."""
        return run(inspecting.info(self._client, self.name))

    def __enter__(self) -> Lease:
        acquired: list[Any] = []
        caller = self._client.runtime.caller()
        before = caller.get(self)
        try:
            lease = self._acquire(self._wait, caller, acquired)
            if lease is None:
                raise self._timed_out()
            caller[self] = (lease, before)
        except BaseException:
            restore_entered(self, caller, before)
            self._undo(acquired)
            raise
        return lease

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        lease, count = None, 0
        try:
            lease = pop_entered(self, self._client.runtime)
            count = lease._count
            run_void(begin_release(lease._client, lease))
        except LeaseLost as lost:
            tell(lost, error)
        except BaseException as raised:
            on_interrupt(raised, self._leave_again, lease, count)
            raise

    def _leave_again(self, lease: Lease | None, count: int) -> None:
        if lease is None:
            lease = pop_entered(self, self._client.runtime)
            count = lease._count
        run(release_again(lease._client, lease, count))

    def _timed_out(self) -> AcquireTimeout:
        info = run(inspecting.holder(self._client, self.name))
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

    def info(self) -> LockInfo:
        """Return who holds the lock and who waits for it."""
        return self._read.info()

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
