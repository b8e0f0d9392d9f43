"""From a URL to the ZooKeeper engine: one session for its backends of both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.zookeeper import settings
from holdfast.backends.zookeeper.aio import AsyncioBackend
from holdfast.backends.zookeeper.session import Session
from holdfast.backends.zookeeper.sync import BlockingBackend

if TYPE_CHECKING:
    from holdfast.connect import Url


class ZooKeeperEngine:
    """One ensemble. What one of its backends took, another may renew or release, as the keeper."""

    def __init__(self, url: Url):
        self._settings = settings.read(url)
        self._session = Session(self._settings)
        self.id = f"zookeeper:{self._settings.place}"

    def blocking(self) -> BlockingBackend:
        return BlockingBackend(self._open())

    def asyncio(self) -> AsyncioBackend:
        return AsyncioBackend(self._open())

    def _open(self) -> Session:
        """The session, or a new one if the last backend closed it."""
        if self._session.closed:
            self._session = Session(self._settings)
        return self._session
