"""From a URL to the Redis engine, in both colours: one server, or the master Sentinels know of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.redis import sentinel, settings
from holdfast.backends.redis.aio import AsyncioBackend
from holdfast.backends.redis.places import Place, Single
from holdfast.backends.redis.sockets import Pool
from holdfast.backends.redis.sync import BlockingBackend

if TYPE_CHECKING:
    from holdfast.connect import Url


class RedisEngine:
    """One database of one server at a time."""

    def __init__(self, place: Place, id: str):  # noqa: A002  # the name of the option
        self._place = place
        self.id = id

    def blocking(self) -> BlockingBackend:
        return BlockingBackend(Pool(self._place))

    def asyncio(self) -> AsyncioBackend:
        return AsyncioBackend(self._place)


def open_url(url: Url) -> RedisEngine:
    """The engine for any of the URLs that lead to a Redis or Valkey."""
    if url.scheme.endswith("+sentinel"):
        place = sentinel.read(url)
        return RedisEngine(place, f"redis+sentinel:{place.service}/{place.settings.db}")
    server = settings.read(url)
    return RedisEngine(Single(server), f"redis:{server.place}/{server.db}")
