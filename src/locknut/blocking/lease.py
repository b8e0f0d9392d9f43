"""The hold, as blocking code has it: one lease, or several taken together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from locknut.core import acquiring_all, detaching, inspecting, losing, validation
from locknut.core.holding import LeaseCore
from locknut.core.releasing import begin_release, release_again
from locknut.core.values import LockInfo, State
from locknut.errors import LeaseLost
from locknut.faces.misuse import for_with
from locknut.runtimes.threads import run, run_void


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

    def wait(self, timeout: validation.Duration | None = None) -> bool:
        """Wait for the loss; False when the time is up or the lease ended in another way."""
        until = self._lease._client.runtime.now() + validation.wait(timeout)
        return run(losing.wait_lost(self._lease._client, self._lease, until))


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
        run(inspecting.renew(self._client, self))

    def info(self) -> LockInfo:
        """Return who holds this lock and who waits for it; on `redlock:`, what each node says."""
        return run(inspecting.info(self._client, self.name))

    def detach(self, ttl: validation.Duration | None = None) -> str:
        """Let the hold go on without this process. Return a secret text for one `attach`."""
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
            leave(self, error)
        except BaseException as raised:
            on_interrupt(raised, self._release_again, count)
            raise

    def _release_again(self, count: int) -> None:
        """What was not done yet is done; `count` as it was when the release began."""
        run(release_again(self._client, self, count))


def on_interrupt(error: BaseException, finish: Callable[..., None], *args: object) -> None:
    """Whoever catches this was on the way out, or in no `with` yet. An error has said all there is
    to say; an interrupt (Ctrl-C) may have come before anything was done, so that is finished.

    Called where an exception is caught, not a context manager around the work: entering one would
    be another moment at which an interrupt leaves everything undone, and would cost every release.
    """
    if not isinstance(error, Exception):
        finish(*args)


def leave(lease: Lease | Leases, error: BaseException | None) -> None:
    """Release at the end of a `with`."""
    try:
        lease.release()
    except LeaseLost as lost:
        tell(lost, error)


def tell(lost: LeaseLost, error: BaseException | None) -> None:
    """A loss is raised at the end of a `with`, but never in place of the body's own error."""
    if error is None:
        raise lost
    error.add_note(f"locknut: {lost}")


@for_with
class Leases:
    """Several holds that were taken together and are released together."""

    __slots__ = ("_acquired", "_caller", "_leases", "_parts")

    def __init__(self, parts: list[acquiring_all.Part], acquired: list[Any]):
        self._parts = parts
        self._acquired = acquired
        self._leases: tuple[Lease, ...] = tuple(acquired)
        self._caller = self._leases[0]._caller

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

    def release(self) -> None:
        """Release all of them."""
        try:
            acquiring_all.let_go(self._parts, self._caller())
            run(acquiring_all.release_all(self._acquired))
        except BaseException as error:
            on_interrupt(error, self._release_again)
            raise

    def _release_again(self) -> None:
        """What was not released yet is released."""
        acquiring_all.let_go(self._parts, self._caller())
        run(acquiring_all.roll_back(self._acquired))

    __reduce__ = validation.refuse_copy

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {acquiring_all.shown(self._leases)}>"

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases)

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
            leave(self, error)
        except BaseException as raised:
            on_interrupt(raised, self._release_again)
            raise
