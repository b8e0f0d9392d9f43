"""Work that several tasks of a loop need at the same time: it is done once, for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedTask(Generic[T]):
    """A task started by its first user and awaited by all of them; when it is over, the next user
    starts another.

    So its time limits are its own, and a caller that gives up takes it from nobody.
    """

    def __init__(self) -> None:
        self._task: asyncio.Task[T] | None = None

    async def done(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Start the work, or wait for what another user has started."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(work())
            self._task.add_done_callback(self._ended)
        return await asyncio.shield(self._task)

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # those who waited have it; if nobody did, nobody needs it

    async def ended(self) -> None:
        """Wait until it is over, whatever came of it."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def forked(self) -> None:
        """In a forked child: it ran on a loop of the parent."""
        self._task = None
