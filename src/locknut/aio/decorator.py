"""The asyncio decorator: a coroutine function that runs under a lock named after its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from locknut.aio.primitives import Lock
    from locknut.faces.locks_base import Decoration

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """What `locked(...)` returns: the function keeps its signature."""

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...


class SkippingDecorator(Protocol):
    """What `locked(..., on_busy="skip")` returns: the function may return None without running."""

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | None]]: ...


def decorator(given: Decoration) -> SkippingDecorator:
    """Return the decorator itself."""

    def decorate(
        function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        name_of = given.namer(function, coroutine=True)

        @functools.wraps(function)
        async def locked(*args: P.args, **kwargs: P.kwargs) -> R | None:
            name = name_of(*args, **kwargs)
            lock: Lock = given.locks().lock(name, timeout=given.timeout, **given.options)
            if not given.skips:
                async with lock:
                    return await function(*args, **kwargs)
            lease = await lock.acquire()
            if lease is None:
                given.skipped(lock, function)
                return None
            async with lease:
                return await function(*args, **kwargs)

        return locked

    return decorate
