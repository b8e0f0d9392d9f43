"""When an engine may put its own things in order: seldom, and when nobody waits for it.

The keeper does it on its own connection. It is housekeeping: if it fails, it is done another time.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locknut.core.ports import Backend, Runtime

EVERY = 600.0
"""Seconds between two times, at the least."""
LIMIT = 1.0
"""It may take this long."""


class Tidying:
    """When one keeper did it last."""

    def __init__(self, runtime: Runtime):
        self._runtime = runtime
        self._done_at = float("-inf")
        self._first_at = runtime.now() + EVERY

    async def between(self, backend: Backend, due: float) -> None:
        """While the keeper has nothing to do until `due`: not if a renewal might come late."""
        now = self._runtime.now()
        if now >= max(self._first_at, self._done_at + EVERY) and due - now > 2 * LIMIT:
            await self._tidy(backend, now)

    async def at_last(self, backend: Backend) -> None:
        """Before the keeper ends for want of work."""
        now = self._runtime.now()
        if now >= self._done_at + EVERY:
            await self._tidy(backend, now)

    async def _tidy(self, backend: Backend, now: float) -> None:
        self._done_at = now
        with suppress(Exception):
            await self._runtime.finish(backend.tidy(), now + LIMIT)
