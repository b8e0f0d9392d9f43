"""From settings to the memcached engine, in both colours."""

from __future__ import annotations

from locknut.backends.memcached.backend import MemcachedBackend
from locknut.backends.memcached.handles import Handles
from locknut.core.base import BaseEngine
from locknut.core.findings import Check
from locknut.core.ports import Runtime
from locknut.drivers.memcached.aio import Link
from locknut.drivers.memcached.server_clocks import ServerClocks
from locknut.drivers.memcached.settings import Settings
from locknut.drivers.memcached.sync import Pool


class MemcachedEngine(BaseEngine):
    """One server. Its backends share what they know of its items."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._handles = Handles()
        self._clocks = ServerClocks()
        self.id = f"memcached:{settings.place}"

    def blocking(self, runtime: Runtime) -> MemcachedBackend:
        pool, delay = Pool(self._settings, self._clocks), self._settings.restart_delay
        backend = MemcachedBackend(pool, self._handles, delay, runtime)
        backend.checks = lambda prefix: _examined(pool, delay)  # type: ignore[method-assign]  # noqa: ARG005 -- the whole server
        return backend

    def asyncio(self, runtime: Runtime) -> MemcachedBackend:
        delay = self._settings.restart_delay
        link = Link(self._settings, self._clocks)
        return MemcachedBackend(link, self._handles, delay, runtime)

    def anew(self) -> MemcachedEngine:
        return MemcachedEngine(self._settings)


def _examined(pool: Pool, delay: float) -> list[Check]:
    from locknut.backends.memcached import checkup  # few programs need it

    return checkup.checks(pool.ask_list, delay, MemcachedBackend.default_ttl or 0.0)
