"""The asyncio face of `once`: at most one run for each slot of a schedule, across all hosts."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from locknut.aio.lease import Lease
from locknut.faces.misuse import for_async_with
from locknut.faces.once_base import Run
from locknut.faces.once_runs import OnceRuns

P = ParamSpec("P")
R = TypeVar("R")


@for_async_with
class Once(OnceRuns[Lease]):
    """At most one run for each slot: `with` gives a lease, or None where nothing is to be done."""

    __module__ = "locknut.aio"  # in reprs: users know no other place

    @staticmethod
    def _caller() -> object:
        return asyncio.current_task()

    async def acquire(self) -> Lease | None:
        """Begin the run of this slot: return its lease, or None if it is not to be run here."""
        started: Run[Lease] = Run()
        try:
            await self._begin(started)
            return self._begun(started) if started.acquired else None
        except BaseException:
            await self._undo(started)
            raise

    async def release(self, *, done: bool = True) -> None:
        """End the run. With `retry`, a slot that is not `done` is free for another run."""
        await self._end(self._ended(), done=done)

    async def __aenter__(self) -> Lease | None:
        started: Run[Lease] = Run()
        try:
            await self._begin(started)
            if started.acquired:
                await started.lease.__aenter__()  # from here on a loss cancels the body
            return self._begun(started)
        except BaseException:
            await self._undo(started)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        ended = self._ended()
        if ended.acquired:
            try:
                await self._settle(ended, done=error is None)
            except BaseException as failed:
                await ended.lease.__aexit__(type(failed), failed, failed.__traceback__)
                raise
            await ended.lease.__aexit__(kind, error, trace)

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, R | None]]:
        """Decorate a function: it runs once for each slot, and returns None where it is skipped."""
        made = self._for_call(function, coroutine=True)

        @functools.wraps(function)
        async def once(*args: P.args, **kwargs: P.kwargs) -> R | None:
            async with made(*args, **kwargs) as lease:
                return None if lease is None else await function(*args, **kwargs)

        return once
