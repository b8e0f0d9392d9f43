"""From a URL to the Redis engine, in both colours: a server, one behind Sentinels, a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.redis import sentinel, settings
from holdfast.backends.redis.aio import AsyncioBackend
from holdfast.backends.redis.cluster import routing
from holdfast.backends.redis.cluster.aio import AsyncioClusterBackend
from holdfast.backends.redis.cluster.routing import Cluster
from holdfast.backends.redis.cluster.sync import ClusterBackend
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


class ClusterEngine:
    """All the masters of a cluster."""

    id = "redis+cluster"

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def blocking(self) -> ClusterBackend:
        return ClusterBackend(self._cluster)

    def asyncio(self) -> AsyncioClusterBackend:
        return AsyncioClusterBackend(self._cluster)


def open_url(url: Url) -> RedisEngine | ClusterEngine:
    """The engine for any of the URLs that lead to a Redis or Valkey."""
    if url.scheme.endswith("+cluster"):
        return ClusterEngine(routing.read(url))
    if url.scheme.endswith("+sentinel"):
        place = sentinel.read(url)
        return RedisEngine(place, f"redis+sentinel:{place.service}/{place.settings.db}")
    server = settings.read(url)
    return RedisEngine(Single(server), f"redis:{server.place}/{server.db}")
