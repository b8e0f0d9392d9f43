"""From settings to the etcd engine: one lease for its backends of both colours."""

from __future__ import annotations

import threading

from locknut.backends.etcd.backend import EtcdBackend
from locknut.backends.etcd.settings import Settings
from locknut.backends.etcd.shared_lease import SharedLease
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.drivers.etcd.aio import LoopLink
from locknut.drivers.etcd.members import Members
from locknut.drivers.etcd.sync import BlockingLink


class EtcdEngine(BaseEngine):
    """One cluster. What one of its backends took, another may renew or release, as the keeper."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._members = Members(settings.driver)
        self._shared: SharedLease | None = None
        self._mutex = threading.Lock()
        self.id = f"etcd:{settings.place}"

    def blocking(self, runtime: Runtime) -> EtcdBackend:
        link = BlockingLink(self._settings.driver, self._members)
        return EtcdBackend(link, self._open(), runtime)

    def asyncio(self, runtime: Runtime) -> EtcdBackend:
        link = LoopLink(self._settings.driver, self._members)
        return EtcdBackend(link, self._open(), runtime)

    def anew(self) -> EtcdEngine:
        """With a lease of its own: the child of a fork has no part in its parent's."""
        return EtcdEngine(self._settings)

    def _open(self) -> SharedLease:
        """The lease, or a new one if there is none yet or the last backend closed it."""
        with self._mutex:  # two would not know each other's claims
            if self._shared is None or self._shared.closed:
                self._shared = SharedLease(self._settings)
            return self._shared
