"""The blocking decorator: a function that runs under a lock named after its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from locknut.blocking.primitives import Lock
    from locknut.faces.locks_base import Decoration

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """What `locked(...)` returns: the function keeps its signature."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


class SkippingDecorator(Protocol):
    """What `locked(..., on_busy="skip")` returns: the function may return None without running."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R | None]: ...


def decorator(given: Decoration) -> SkippingDecorator:
    """Return the decorator itself."""

    def decorate(function: Callable[P, R], /) -> Callable[P, R | None]:
        name_of = given.namer(function, coroutine=False)

        @functools.wraps(function)
        def locked(*args: P.args, **kwargs: P.kwargs) -> R | None:
            name = name_of(*args, **kwargs)
            lock: Lock = given.locks().lock(name, timeout=given.timeout, **given.options)
            if not given.skips:
                with lock:
                    return function(*args, **kwargs)
            lease = lock.acquire()
            if lease is None:
                given.skipped(lock, function)
                return None
            with lease:
                return function(*args, **kwargs)

        return locked

    return decorate
