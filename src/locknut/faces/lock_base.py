"""What locks and leases of either face are, apart from waiting: a face adds what waits.

A blocking Lock and an asyncio Lock are both a `LockBase`, and neither is an instance of the other.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from locknut import pickling
from locknut.core import acquiring_all, validation
from locknut.core.holding import LeaseCore
from locknut.core.values import Mode, State
from locknut.errors import AcquireTimeout, ConfigurationError, LeaseLost
from locknut.faces.misuse import made_by
from locknut.faces.options import OnLost, checked_on_lost, timed_out

if TYPE_CHECKING:
    from locknut.core.callers import Caller
    from locknut.core.client import Client
    from locknut.core.lock_request import LockOptions
    from locknut.core.ports import Runtime

T = TypeVar("T")
LockT = TypeVar("LockT", bound="LockBase")
LeaseT = TypeVar("LeaseT", bound=LeaseCore)


def returning(**types: Any) -> Callable[[type[T]], type[T]]:
    """Give a class its own copies of inherited methods that say what they return in this face.

    Type checkers know it from the type variables; this is for `help` and `inspect.signature`.
    """

    def own(kind: type[T]) -> type[T]:
        for name, made in types.items():
            method = getattr(kind, name)
            copy = FunctionType(
                method.__code__, method.__globals__, name, method.__defaults__, method.__closure__
            )
            copy.__kwdefaults__ = method.__kwdefaults__
            copy.__doc__ = method.__doc__
            copy.__annotations__ = {**method.__annotations__, "return": made}
            copy.__module__ = kind.__module__
            copy.__qualname__ = f"{kind.__qualname__}.{name}"
            setattr(kind, name, copy)
        return kind

    return own


class LockBase(pickling.Named):
    """A name with options, to be acquired again and again."""

    __slots__ = ("__weakref__", "_client", "_on_lost", "_request", "_timeout", "_wait", "name")

    def __init__(
        self,
        client: Client,
        name: str = "",
        options: LockOptions | None = None,
        timeout: validation.Duration | None = None,
        on_lost: OnLost = None,
    ):
        if options is None:
            raise made_by(type(self))
        self.name = validation.name(name)
        self._client = client
        self._timeout = timeout
        self._wait = validation.wait(timeout)
        self._on_lost = on_lost if on_lost is None else checked_on_lost(on_lost)
        self._request = client.request(name, options)

    @abstractmethod
    def _caller(self) -> Caller | None:
        """Return what the calling thread or task has; None outside of any task of the loop."""

    @abstractmethod
    async def _acquire_into(self, acquired: list[Any]) -> None:
        """For what both faces share: `acquire()`, whose lease is in the list when it is held."""

    def _find(self, caller: Caller | None) -> Any:  # a Lease of this face, or None
        """Return the lease that a thread or task has on this lock, and would release next."""
        lease = None if caller is None else caller.get(self._request.slot)
        if isinstance(lease, list):
            lease = lease[-1] if lease else None
        if lease is None:
            return None
        hold, mode = lease._hold, self._request.options.mode
        if hold.claim.mode is mode and hold.options.mode is mode and lease._outer is None:
            return lease  # as a rule, and without a call of its property
        return lease if lease.mode is mode else lease._inner

    @property
    def held(self) -> bool:
        """Whether the calling thread or task holds the lock."""
        caller = self._caller()
        lease = None if caller is None else caller.get(self._request.slot)
        if isinstance(lease, list):
            return any(each.held for each in lease)
        return lease is not None and bool(lease.held)

    @property
    def owner(self) -> str | None:
        """The `owner` that the lock was made with, if any."""
        return self._request.options.owner

    def __reduce__(self) -> tuple[object, ...]:
        options = self._request.options
        return type(self), (self._client, self.name, options, self._timeout, self._on_lost)

    def __repr__(self) -> str:
        options, held = self._request.options, "held" if self.held else "not held"
        permits = f"{options.permits} permit{'s' * (options.permits > 1)}"
        kind = {Mode.EXCLUSIVE: "", Mode.SHARED: ", reading", Mode.PERMIT: f", {permits}"}
        where = f"{self.name!r}{kind[options.mode]} on {self._client.backend.name}"
        return f"<{type(self).__module__}.{type(self).__name__} {where}: {held} here>"


class SemaphoreBase(LockBase):
    """What a Semaphore has and a Lock has not."""

    __slots__ = ()

    @property
    def permits(self) -> int:
        """How many may hold this semaphore at a time."""
        return self._request.options.permits


class RWLockBase(pickling.Named, Generic[LockT]):
    """Two locks of one name: one for readers, one for writers."""

    __slots__ = ("__weakref__", "_read", "_write", "name")

    def __init__(self, read: LockT, write: LockT):
        self.name = read.name
        self._read = read
        self._write = write

    def read(self) -> LockT:
        """Return the lock for reading, which readers hold together."""
        return self._read

    def write(self) -> LockT:
        """Return the lock for writing, which one writer holds alone."""
        return self._write

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._read, self._write)

    def __repr__(self) -> str:
        where = f"{self.name!r} on {self._read._client.backend.name}"
        held = "held" if self._read.held else "not held"
        return f"<{type(self).__module__}.{type(self).__name__} {where}: {held} here>"


class LockGroupBase(pickling.Named):
    """Several locks that are acquired as one, in the order of their global names."""

    __slots__ = ("__weakref__", "_parts", "_timeout")

    def __init__(self, parts: list[acquiring_all.Part], timeout: validation.Duration | None):
        validation.wait(timeout)
        self._parts = acquiring_all.in_order(parts)
        self._timeout = timeout

    @property
    def _runtime(self) -> Runtime:
        return self._parts[0][0].runtime

    @property
    def names(self) -> list[str]:
        """The names, in the order in which they are acquired."""
        return [client.bare(request.key) for client, request in self._parts]

    def _timed_out(self) -> AcquireTimeout:
        client, request = self._parts[-1]
        error = timed_out(client, request, self._timeout, None)
        error.key = " + ".join(self.names)
        return error

    def __reduce__(self) -> tuple[object, ...]:
        parts = [
            (client, client.bare(request.key), request.options) for client, request in self._parts
        ]
        return pickling.together, (type(self), parts, self._timeout)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} {self.names}>"


def parts_of(locks: Iterable[LockBase], lock_type: type[LockBase]) -> list[acquiring_all.Part]:
    """Return what `all_of(*locks)` acquires; `lock_type` is the Lock of its face."""
    locks = list(locks)
    for lock in locks:
        if not isinstance(lock, lock_type) or isinstance(lock, SemaphoreBase):
            raise ConfigurationError(f"all_of takes locks of this face, got {lock!r}")
    return [(lock._client, lock._request) for lock in locks]


class LostBase:
    """The loss of one lease, as something to wait for."""

    __slots__ = ("_lease",)

    def __init__(self, lease: LeaseCore):
        self._lease = lease

    def is_set(self) -> bool:
        """Whether the hold was lost."""
        return self._lease.state is State.LOST

    def _until(self, timeout: validation.Duration | None) -> float:
        return self._lease._client.runtime.now() + validation.wait(timeout)

    def __repr__(self) -> str:
        lease = self._lease
        come = "set" if lease._ended is State.LOST else "not set"
        return f"<{type(self).__name__} of {lease.name!r} on {lease.backend}: {come}>"


class LeasesBase(Generic[LeaseT]):
    """Several leases that were acquired together and are released together."""

    __slots__ = ("_acquired", "_caller", "_leases", "_parts")

    def __init__(self, parts: list[acquiring_all.Part], acquired: list[Any]):
        self._parts = parts
        self._acquired = acquired
        self._leases: tuple[LeaseT, ...] = tuple(acquired)
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

    def __iter__(self) -> Iterator[LeaseT]:
        return iter(self._leases)

    __reduce__ = validation.refuse_copy

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {acquiring_all.shown(self._leases)}>"


def raise_loss(lost: LeaseLost, error: BaseException | None, *, ours: bool = False) -> None:
    """Raise a loss at the end of a `with`, but never in place of the body's own error.

    `ours`: the error is the cancellation that this loss caused, so it becomes a LeaseLost.
    """
    if error is None:
        raise lost
    if ours:
        raise lost from error
    error.add_note(f"locknut: {lost}")
