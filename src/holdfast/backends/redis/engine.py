"""From a URL to the Redis engine: a single server, in both colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.redis import settings
from holdfast.backends.redis.aio import AsyncioBackend
from holdfast.backends.redis.sync import BlockingBackend

if TYPE_CHECKING:
    from holdfast.connect import Url


class RedisEngine:
    """One database of one server."""

    def __init__(self, url: Url):
        self._settings = settings.read(url)
        self.id = f"redis:{self._settings.place}/{self._settings.db}"

    def blocking(self) -> BlockingBackend:
        return BlockingBackend(self._settings)

    def asyncio(self) -> AsyncioBackend:
        return AsyncioBackend(self._settings)
