"""From settings to the ZooKeeper engine: one session for its backends of both colours."""

from __future__ import annotations

import threading

from locknut.backends.zookeeper.aio import AsyncioBackend
from locknut.backends.zookeeper.session import Session
from locknut.backends.zookeeper.settings import Settings
from locknut.backends.zookeeper.sync import BlockingBackend
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime


class ZooKeeperEngine(BaseEngine):
    """One ensemble. What one of its backends took, another may renew or release, as the keeper."""

    def __init__(self, settings: Settings):
        self._settings = settings
        self._session: Session | None = None
        self._mutex = threading.Lock()
        self.id = f"zookeeper:{settings.address}"

    def blocking(self, runtime: Runtime) -> BlockingBackend:
        return BlockingBackend(self._open(runtime), runtime)

    def asyncio(self, runtime: Runtime) -> AsyncioBackend:
        return AsyncioBackend(self._open(runtime), runtime)

    def anew(self) -> ZooKeeperEngine:
        """With a session of its own: the child of a fork has no part in its parent's."""
        return ZooKeeperEngine(self._settings)

    def _open(self, runtime: Runtime) -> Session:
        """The session, or a new one if there is none yet or the last backend closed it."""
        with self._mutex:  # two sessions would not know each other's claims
            if self._session is None or self._session.closed:
                self._session = Session(self._settings, runtime.now)
            return self._session
