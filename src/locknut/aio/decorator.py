"""The asyncio decorator: a coroutine function that runs under a lock named after its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from locknut.core.validation import Duration
from locknut.faces.options import LockOptions, OnBusy, skipped

if TYPE_CHECKING:
    from locknut.aio.locks import Locks

P = ParamSpec("P")
R = TypeVar("R")


class Decorator(Protocol):
    """What `locked(...)` gives: the function keeps its signature."""

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...


class SkippingDecorator(Protocol):
    """What `locked(..., on_busy="skip")` gives: the function may return None without being run."""

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | None]]: ...


def decorator(
    locks: Callable[[], Locks],
    template: str,
    on_busy: OnBusy,
    patience: Duration | None,
    options: LockOptions,
) -> SkippingDecorator:
    """The decorator itself; which Locks is used is asked anew at every call."""
    from locknut.faces import templates  # brings `inspect`, which few programs need

    def decorate(
        function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        templates.refuse(function, coroutine=True)
        name_of = templates.namer(template, function)

        @functools.wraps(function)
        async def locked(*args: P.args, **kwargs: P.kwargs) -> R | None:
            client = locks()
            lock = client.lock(name_of(*args, **kwargs), timeout=patience, **options)
            if on_busy != "skip":
                async with lock:
                    return await function(*args, **kwargs)
            lease = await lock.acquire()
            if lease is None:
                skipped(client._client, lock.name, function.__qualname__)
                return None
            async with lease:
                return await function(*args, **kwargs)

        return locked

    return decorate
