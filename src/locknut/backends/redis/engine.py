"""From a URL to the Redis engine, in both colours: a server, one behind Sentinels, a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locknut.backends.redis import sentinel, settings
from locknut.backends.redis.aio import AsyncioBackend
from locknut.backends.redis.clients import place_of
from locknut.backends.redis.cluster import routing
from locknut.backends.redis.cluster.aio import AsyncioClusterBackend
from locknut.backends.redis.cluster.routing import Cluster
from locknut.backends.redis.cluster.sync import ClusterBackend
from locknut.backends.redis.layouts import FOREIGN
from locknut.backends.redis.layouts.aio import AsyncioForeign
from locknut.backends.redis.layouts.sync import BlockingForeign
from locknut.backends.redis.places import Known, Single
from locknut.backends.redis.pools import Pool
from locknut.backends.redis.sentinel import Sentinels
from locknut.backends.redis.sync import BlockingBackend
from locknut.core.ports import Runtime
from locknut.core.values import Customs
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url


class RedisEngine:
    """One database of one server at a time, in the layout that the URL names."""

    def __init__(self, place: Known, id: str):  # noqa: A002  # the name of the option
        self._place = place
        self._layout = layout = FOREIGN.get(place.settings.layout)
        self._id = id
        self.customs = Customs() if layout is None else layout.customs
        self.id = id if layout is None else f"{id}?layout={layout.name}"

    def blocking(self, runtime: Runtime) -> BlockingBackend:  # noqa: ARG002  # its parts ask the clock themselves
        if self._layout is not None:
            return BlockingForeign(Pool(self._place), self._layout)
        return BlockingBackend(Pool(self._place))

    def asyncio(self, runtime: Runtime) -> AsyncioBackend:  # noqa: ARG002  # its parts ask the clock themselves
        if self._layout is not None:
            return AsyncioForeign(self._place, self._layout)
        return AsyncioBackend(self._place)

    def anew(self) -> RedisEngine:
        """What was learned of the server is the parent's, and its mutex may be held there."""
        return RedisEngine(self._place.anew(), self._id)


class ClusterEngine:
    """All the masters of a cluster."""

    id = "redis+cluster"

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def blocking(self, runtime: Runtime) -> ClusterBackend:  # noqa: ARG002  # its parts ask the clock themselves
        return ClusterBackend(self._cluster)

    def asyncio(self, runtime: Runtime) -> AsyncioClusterBackend:  # noqa: ARG002  # its parts ask the clock themselves
        return AsyncioClusterBackend(self._cluster)

    def anew(self) -> ClusterEngine:
        return ClusterEngine(self._cluster.anew())


def adopt(client: Any) -> RedisEngine | ClusterEngine:
    """The engine that a user's own client leads to."""
    place = place_of(client)
    if isinstance(place, Cluster):
        return ClusterEngine(place)
    if isinstance(place, Sentinels):
        return _sentinel(place)
    return _single(place)


def open_url(url: Url) -> RedisEngine | ClusterEngine:
    """The engine for any of the URLs that lead to a Redis or Valkey."""
    if url.scheme.endswith("+cluster"):
        if "layout" in url.options:
            message = "layout= is for one server or Sentinels: in a cluster it is not supported"
            raise ConfigurationError(message, backend="redis")
        return ClusterEngine(routing.read(url))
    if url.scheme.endswith("+sentinel"):
        return _sentinel(sentinel.read(url))
    return _single(Single(settings.read(url)))


def _sentinel(place: Sentinels) -> RedisEngine:
    return RedisEngine(place, f"redis+sentinel:{place.service}/{place.settings.db}")


def _single(place: Single) -> RedisEngine:
    return RedisEngine(place, f"redis:{place.settings.place}/{place.settings.db}")
