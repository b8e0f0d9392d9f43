"""The blocking face of one lock: a name with settings, to be acquired again and again."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from locknut.blocking.lease import Lease, exchanged, on_interrupt, pop_entered, restore_entered
from locknut.blocking.tasks import note_task, refuse_other_task, running_task
from locknut.core import inspecting, validation
from locknut.core.acquiring import acquire
from locknut.core.forking import here
from locknut.core.releasing import begin_release, release_again
from locknut.core.validation import FOREVER
from locknut.core.values import LockInfo
from locknut.errors import AcquireTimeout, LeaseLost, LocknutError, NotHeld
from locknut.faces import misuse
from locknut.faces.lock_base import LockBase, RWLockBase, SemaphoreBase, raise_loss, returning
from locknut.faces.misuse import by_halves, for_with
from locknut.faces.options import chosen, timed_out
from locknut.runtimes.threads import run, run_void

if TYPE_CHECKING:
    from locknut.core.callers import Caller


@misuse.answering_acquire
@for_with
class Lock(LockBase):
    """A named lock. It can replace a `threading.RLock`, and threads can share it.

    Re-entrant: the thread that holds it may acquire it again, and must release it as often.
    """

    __slots__ = ()

    def _caller(self) -> Caller:
        return self._client.runtime.caller()

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

    async def _acquire_into(self, acquired: list[Any]) -> None:
        own: list[Any] = []
        try:
            self._acquire(self._wait, self._client.runtime.caller(), own)
        finally:
            acquired.extend(own)

    def _undo(self, acquired: list[Any]) -> None:
        """Interrupted (Ctrl-C) after the grant: nobody else will release it."""
        for lease in acquired:
            with suppress(LocknutError):
                lease.release()

    def release(self) -> None:
        """Release what this thread holds; raises NotHeld (a RuntimeError) if it holds nothing."""
        lease, count = None, 0
        try:
            lease = self._find(self._client.runtime.caller())
            if lease is None:
                raise self._not_held()
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
        lease: Lease | None = self._find(self._client.runtime.caller())
        if lease is None:
            raise self._not_held()
        return lease

    def _not_held(self) -> NotHeld:
        from locknut.core import naming_holder  # few programs need to be told

        mode = self._request.options.mode
        return run(naming_holder.not_held(self._client, self.name, mode))

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
            raise_loss(lost, error)
        except BaseException as raised:
            on_interrupt(raised, self._exit_again, lease, count)
            raise

    def _exit_again(self, lease: Lease | None, count: int) -> None:
        if lease is None:
            lease = pop_entered(self, self._client.runtime)
            count = lease._count
        run(release_again(lease._client, lease, count))

    def _timed_out(self) -> AcquireTimeout:
        from locknut.core import naming_holder  # many get what they wait for

        info = run(naming_holder.holder(self._client, self.name))
        return timed_out(self._client, self._request, self._timeout, info)


@by_halves
@returning(read=Lock, write=Lock)
class RWLock(RWLockBase[Lock]):
    """Many readers or one writer. Readers cannot starve a writer, and a writer may also read."""

    __slots__ = ()

    def info(self) -> LockInfo:
        """Return who holds the lock and who waits for it."""
        return self._read.info()


class Semaphore(Lock, SemaphoreBase):
    """At most `permits` holders at a time, each with a lease of its own. Not re-entrant.

    Clients may use different limits: each is let in while fewer than its own limit are held.
    """

    __slots__ = ()
