"""The hold, as blocking code has it: one lease, or several; and which one a `with` has."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from locknut.core import acquiring_all, detaching, inspecting, losing, renewing, validation
from locknut.core.holding import LeaseCore
from locknut.core.releasing import begin_release, release_again
from locknut.core.values import LockInfo
from locknut.errors import LeaseLost, NotHeld
from locknut.faces.lock_base import LeasesBase, LostBase, raise_loss
from locknut.faces.misuse import for_with
from locknut.runtimes.threads import run, run_void

if TYPE_CHECKING:
    from locknut.core.callers import Caller
    from locknut.core.ports import Runtime


class Lost(LostBase):
    """The loss of one lease, as something to wait for."""

    __slots__ = ()

    def wait(self, timeout: validation.Duration | None = None) -> bool:
        """Wait for the loss. Return False if the timeout expired or the lease ended otherwise."""
        return run(losing.wait_lost(self._lease._client, self._lease, self._until(timeout)))


@for_with
class Lease(LeaseCore):
    """One hold of one lock. Leaving a `with` on it releases it."""

    __slots__ = ("_inside",)

    _inside: tuple[int, Callable[[], object]]
    """The asyncio task that entered it last, and the count before; not there outside of loops."""

    @property
    def lost(self) -> Lost:
        """The loss of this hold: `lost.wait(timeout)`, `lost.is_set()`."""
        return Lost(self)

    def release(self) -> None:
        """Release the lock, from any thread. Raises LeaseLost if it was lost in the meantime."""
        count = self._count
        try:
            run_void(begin_release(self._client, self))
        except BaseException as error:
            on_interrupt(error, self._release_again, count)
            raise

    def renew(self) -> None:
        """Renew the hold now. Raises unless the engine confirms that it is still ours."""
        run(renewing.renew(self._client, self))

    def info(self) -> LockInfo:
        """Return who holds this lock and who waits for it, with what the engine adds."""
        return run(inspecting.info(self._client, self.name))

    def detach(self, ttl: validation.Duration | None = None) -> str:
        """Let the hold go on without this process. Return a secret text for one `attach()`."""
        seconds = detaching.checked_ttl(self._client.backend, ttl)
        return run(detaching.detach(self._client, self, seconds))

    def __enter__(self) -> Self:
        try:
            self.check()
        except BaseException as error:
            on_interrupt(error, self._release_again, self._count)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        count = self._count
        try:
            release_on_exit(self, error)
        except BaseException as raised:
            on_interrupt(raised, self._release_again, count)
            raise

    def _release_again(self, count: int) -> None:
        """Finish an interrupted release; `count` is the one from before the release."""
        run(release_again(self._client, self, count))


def on_interrupt(error: BaseException, finish: Callable[..., None], *args: object) -> None:
    """Finish what an interrupt (Ctrl-C) cut short; it may have come before anything was done.

    After other errors there is nothing left to do. This is called where an exception is caught, and
    is not a context manager around the work: entering one would be another moment at which an
    interrupt leaves everything undone, and it would make every release slower.
    """
    if not isinstance(error, Exception):
        finish(*args)


def release_on_exit(lease: Lease | Leases, error: BaseException | None) -> None:
    """Release at the end of a `with`."""
    try:
        lease.release()
    except LeaseLost as lost:
        raise_loss(lost, error)


@for_with
class Leases(LeasesBase[Lease]):
    """Several leases that were acquired together and are released together."""

    __slots__ = ()

    def release(self) -> None:
        """Release all of them."""
        try:
            acquiring_all.let_go(self._parts, self._caller())
            run(acquiring_all.release_all(self._acquired))
        except BaseException as error:
            on_interrupt(error, self._release_again)
            raise

    def _release_again(self) -> None:
        """Finish an interrupted release."""
        acquiring_all.let_go(self._parts, self._caller())
        run(acquiring_all.roll_back(self._acquired))

    def __enter__(self) -> Self:
        try:
            self.check()
        except BaseException as error:
            on_interrupt(error, self._release_again)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            release_on_exit(self, error)
        except BaseException as raised:
            on_interrupt(raised, self._release_again)
            raise


def pop_entered(lock: object, runtime: Runtime) -> Any:  # what __enter__ put there
    """Return what the calling thread entered last with this lock and has not left yet."""
    caller = runtime.caller()
    entered = caller.get(lock)
    if entered is None:
        message = (
            "left a 'with' that this thread or task did not enter (after a fork, what was entered "
            "before is the parent's)"
        )
        raise NotHeld(message)
    # No call from here on: an interrupt (Ctrl-C) comes after calls, and would lose it.
    last, before = entered
    if before is None:
        del caller[lock]
    else:
        caller[lock] = before
    return last


def restore_entered(lock: object, caller: Caller, before: object) -> None:
    """Forget that this `with` was entered."""
    if before is None:
        caller.pop(lock, None)
    else:
        caller[lock] = before


def exchanged(entered: Any, before: object, after: object) -> Any:  # what __enter__ put there
    """Return the same entries of a `with`, with one hold in place of another."""
    if entered is None:
        return None
    what, rest = entered
    return (after if what is before else what, exchanged(rest, before, after))
