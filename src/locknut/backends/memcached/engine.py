"""From settings to the memcached engine, in both colours."""

from __future__ import annotations

from locknut.backends.memcached.backend import MemcachedBackend
from locknut.backends.memcached.handles import Handles
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.drivers.memcached.aio import Link
from locknut.drivers.memcached.settings import Settings
from locknut.drivers.memcached.sync import Pool


class MemcachedEngine(BaseEngine):
    """One server. Its backends share what they know of its items."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._handles = Handles()
        self.id = f"memcached:{settings.place}"

    def blocking(self, runtime: Runtime) -> MemcachedBackend:
        delay = self._settings.restart_delay
        return MemcachedBackend(Pool(self._settings), self._handles, delay, runtime)

    def asyncio(self, runtime: Runtime) -> MemcachedBackend:
        delay = self._settings.restart_delay
        return MemcachedBackend(Link(self._settings), self._handles, delay, runtime)

    def anew(self) -> MemcachedEngine:
        return MemcachedEngine(self._settings)
