"""From a URL to the Redis engine: a single server, in both colours, in the layout it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.redis import settings
from holdfast.backends.redis.aio import AsyncioBackend
from holdfast.backends.redis.layouts import FOREIGN
from holdfast.backends.redis.layouts.aio import AsyncioForeign
from holdfast.backends.redis.layouts.sync import BlockingForeign
from holdfast.backends.redis.sync import BlockingBackend
from holdfast.core.values import Customs

if TYPE_CHECKING:
    from holdfast.connect import Url


class RedisEngine:
    """One database of one server."""

    def __init__(self, url: Url):
        self._settings = settings.read(url)
        self._layout = FOREIGN.get(self._settings.layout)
        self.customs = Customs() if self._layout is None else self._layout.customs
        self.id = f"redis:{self._settings.place}/{self._settings.db}"
        if self._layout is not None:
            self.id += f"?layout={self._layout.name}"

    def blocking(self) -> BlockingBackend:
        if self._layout is None:
            return BlockingBackend(self._settings)
        return BlockingForeign(self._settings, self._layout)

    def asyncio(self) -> AsyncioBackend:
        if self._layout is None:
            return AsyncioBackend(self._settings)
        return AsyncioForeign(self._settings, self._layout)
