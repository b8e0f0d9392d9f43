"""From settings to the ZooKeeper engine: one session for its backends of both colours."""

from __future__ import annotations

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
        self._session = Session(settings)
        self.id = f"zookeeper:{settings.address}"

    def blocking(self, runtime: Runtime) -> BlockingBackend:  # noqa: ARG002  # its parts ask the clock themselves
        return BlockingBackend(self._open())

    def asyncio(self, runtime: Runtime) -> AsyncioBackend:  # noqa: ARG002  # its parts ask the clock themselves
        return AsyncioBackend(self._open())

    def anew(self) -> ZooKeeperEngine:
        """With a session of its own: the child of a fork has no part in its parent's."""
        return ZooKeeperEngine(self._settings)

    def _open(self) -> Session:
        """The session, or a new one if the last backend closed it."""
        if self._session.closed:
            self._session = Session(self._settings)
        return self._session
