"""Celery tasks that run one at a time for their arguments, and what becomes of a busy one."""

from __future__ import annotations

import functools
import hashlib
import inspect
import random
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, Literal, ParamSpec, Protocol, TypedDict, TypeGuard, TypeVar, overload

from celery import Task, current_task
from celery.exceptions import Reject, Retry
from kombu.utils import json

import locknut
from locknut.core.validation import Duration, seconds
from locknut.errors import AcquireTimeout, BackendError, ConfigurationError, NotHeld
from locknut.faces.locks_base import Decoration
from locknut.faces.options import LockKeywords, OnLost, check_options

P = ParamSpec("P")
R = TypeVar("R")
OnBusy = Literal["retry", "skip", "raise"]

_BUSY: Final = "locknut_busy"
"""The header of a message that counts how often the task came back because of its lock."""
_UNKNOWN: Final = 30.0
"""For how many seconds an engine that does not tell may keep the lock of a worker that is dead."""
_dumps: Any = json.dumps
"""As Celery writes arguments into a message; it has no types."""
_current: ContextVar[locknut.Lease] = ContextVar("locknut_lease_of_task")


class Skipped(TypedDict):
    """The result of a task that was skipped, as every serializer of Celery can carry it."""

    locknut: Literal["skipped"]
    lock: str
    held_by: str


def is_skipped(result: object) -> TypeGuard[Skipped]:
    """Whether this result of a task says that it was skipped."""
    return isinstance(result, dict) and result.get("locknut") == "skipped"


def current_lease() -> locknut.Lease:
    """Return the hold under which the running task has been started: `current_lease().check()`."""
    try:
        return _current.get()
    except LookupError:
        message = "no task with a lock runs in this thread: decorate it with @locked_task(...)"
        raise NotHeld(message) from None


class LockedTask(Protocol):
    """What `locked_task(...)` returns: the function keeps its signature."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


class SkippingTask(Protocol):
    """What `locked_task(..., on_busy="skip")` returns: the function may be skipped."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | Skipped]: ...


@overload
def locked_task(
    template: str | None = None,
    *,
    on_busy: Literal["skip"],
    locks: locknut.Locks | None = None,
    ttl: Duration | None = None,
    max_hold: Duration | None = None,
    on_lost: OnLost = None,
) -> SkippingTask: ...


@overload
def locked_task(
    template: str | None = None,
    *,
    on_busy: Literal["retry", "raise"] = "retry",
    retry_every: Duration = 5.0,
    busy_retries: int | None = None,
    locks: locknut.Locks | None = None,
    ttl: Duration | None = None,
    max_hold: Duration | None = None,
    on_lost: OnLost = None,
) -> LockedTask: ...


def locked_task(  # noqa: PLR0913  # its options, each by name
    template: str | None = None,
    *,
    on_busy: OnBusy = "retry",
    retry_every: Duration = 5.0,
    busy_retries: int | None = None,
    locks: locknut.Locks | None = None,
    ttl: Duration | None = None,
    max_hold: Duration | None = None,
    on_lost: OnLost = None,
) -> Any:
    """Run a task one at a time for its arguments; it goes below `@app.task`.

    The lock is named by the template ("report:{day}"), or by the task and a digest of all of its
    arguments. A task that finds it busy comes back after `retry_every` without holding anything
    ("retry": for ever, or `busy_retries` times), returns a `Skipped` ("skip"), or raises
    AcquireTimeout ("raise"). The task fails with LeaseLost if its lock was lost while it ran.
    """
    if callable(template):
        raise ConfigurationError("locked_task needs parentheses: @locked_task()")
    if on_busy not in ("retry", "skip", "raise"):
        raise ConfigurationError(f"on_busy must be one of retry, skip, raise, got {on_busy!r}")
    options = LockKeywords(ttl=ttl, max_hold=max_hold, on_lost=on_lost)
    check_options(0, options)
    pause = seconds(retry_every, "retry_every")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        given = Decoration(
            lambda: locks or locknut.default(),
            function.__name__ if template is None else template,
            "skip" if on_busy == "skip" else "raise",
            None,
            options,
        )
        rule = _Rule(function, given, on_busy, pause, busy_retries)
        name_of = given.namer(function, coroutine=False)
        if template is None:
            name_of = _name_by_digest(function)

        @functools.wraps(function)
        def locked(*args: Any, **kwargs: Any) -> Any:
            return rule.run(name_of(*args, **kwargs), args, kwargs)

        return locked

    return decorate


class _Rule:
    """What one decorated function is run under, and what becomes of a run that finds it busy."""

    def __init__(
        self,
        function: Callable[..., Any],
        given: Decoration,
        on_busy: OnBusy,
        pause: float,
        retries: int | None,
    ):
        self._function = function
        self._given = given
        self._on_busy = on_busy
        self._pause = pause
        self._retries = retries

    def run(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        locks: locknut.Locks = self._given.locks()
        lock = locks.lock(name, timeout=0, **self._given.options)
        lease = lock.acquire() or self._after_a_crash(locks, lock)
        if lease is None:
            return self._busy(locks, lock)
        with lease:
            before = _current.set(lease)
            try:
                return self._function(*args, **kwargs)
            finally:
                _current.reset(before)

    def _after_a_crash(self, locks: locknut.Locks, lock: locknut.Lock) -> locknut.Lease | None:
        """Wait for the lock that a dead worker may have left, if that ran this very message.

        A broker delivers a message again when its worker died (`acks_late`). To skip it because
        the engine still has the lock of that worker would be to lose the task. One that comes back
        later anyway need not wait here.
        """
        delivery = current_task.request.delivery_info if current_task else None
        if self._on_busy == "retry" or not (delivery or {}).get("redelivered"):
            return None
        holder = _holder(locks, lock.name)
        left = None if holder is None else holder.ttl_left
        return lock.acquire(timeout=(_UNKNOWN if left is None else left) + 1.0)

    def _busy(self, locks: locknut.Locks, lock: locknut.Lock) -> Skipped:
        holder = str(_holder(locks, lock.name) or "somebody")
        if self._on_busy == "skip":
            self._given.skipped(lock, self._function)
            return Skipped(locknut="skipped", lock=lock.name, held_by=holder)
        # A result backend carries the message alone, so the name is in it.
        message = f"{self._function.__qualname__} was not run: {lock.name!r} is held by {holder}"
        busy = AcquireTimeout(message, key=lock.name, backend=locks.backend)
        if self._on_busy == "raise" or not _is_in_a_worker():
            raise busy
        raise self._come_back(current_task, busy)

    def _come_back(self, task: Any, busy: AcquireTimeout) -> Any:  # an exception
        """Send the same message once more, for later; return what tells Celery so.

        This is not `task.retry()`, because that would use up the retries which the task has for
        errors of its own.
        """
        request = task.request
        headers = dict(request.headers or {})
        headers[_BUSY] = times = headers.get(_BUSY, 0) + 1
        if self._retries is not None and times > self._retries:
            return busy
        countdown = self._pause * random.uniform(1.0, 1.5)  # noqa: S311  # so that not all come at once
        again = task.signature_from_request(
            request, countdown=countdown, retries=request.retries, headers=headers
        )
        try:
            again.apply_async()
        except Exception as error:  # noqa: BLE001  # as in Task.retry: the broker is told
            return Reject(error, requeue=False)
        return Retry(exc=busy, when=countdown, sig=again)


def _is_in_a_worker() -> bool:
    """Whether the task can come back: one that is called as a function, or eagerly, cannot."""
    request = current_task.request if current_task else None
    return request is not None and not (request.called_directly or request.is_eager)


def _holder(locks: locknut.Locks, name: str) -> locknut.Holder | None:
    with suppress(BackendError):
        return next(iter(locks.info(name).holders), None)
    return None


def _name_by_digest(function: Callable[..., Any]) -> Callable[..., str]:
    signature = inspect.signature(function)
    own = f"{function.__module__}.{function.__name__}"

    def name_of(*args: object, **kwargs: object) -> str:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        # `self` of a task with bind=True is no argument.
        values = {key: value for key, value in bound.arguments.items() if not _is_task(value)}
        task = current_task.name if current_task else own
        try:
            text = _dumps(values, sort_keys=True)
        except TypeError as error:
            message = (
                f"the arguments of {task} have no digest ({error}): name the lock by what tells "
                'its calls apart, as in @locked_task("report:{day}")'
            )
            raise ConfigurationError(message) from None
        return f"{task}:{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    return name_of


def _is_task(value: object) -> bool:
    return isinstance(value, Task)


__all__ = [
    "LockedTask",
    "Skipped",
    "SkippingTask",
    "current_lease",
    "is_skipped",
    "locked_task",
]
