"""The blocking decorator: a function that runs under a lock named after its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from locknut.core.validation import Duration
from locknut.faces.options import LockOptions, OnBusy, skipped

if TYPE_CHECKING:
    from locknut.blocking.locks import Locks

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """What `locked(...)` gives: the function keeps its signature."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


class SkippingDecorator(Protocol):
    """What `locked(..., on_busy="skip")` gives: the function may return None without being run."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | None]: ...


def decorator(
    locks: Callable[[], Locks],
    template: str,
    on_busy: OnBusy,
    patience: Duration | None,
    options: LockOptions,
) -> SkippingDecorator:
    """The decorator itself; which Locks is used is asked anew at every call."""
    from locknut.faces import templates  # brings `inspect`, which few programs need

    def decorate(function: Callable[P, R], /) -> Callable[P, R | None]:
        templates.refuse(function, coroutine=False)
        name_of = templates.namer(template, function)

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R | None:
            client = locks()
            lock = client.lock(name_of(*args, **kwargs), timeout=patience, **options)
            if on_busy != "skip":
                with lock:
                    return function(*args, **kwargs)
            lease = lock.acquire()
            if lease is None:
                skipped(client._client, lock.name, function.__qualname__)
                return None
            with lease:
                return function(*args, **kwargs)

        return locked

    return decorate
