"""From a URL to the Redis engine, in both colours: a server, one behind Sentinels, a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from locknut.backends.redis.aio import asyncio_backend
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.cluster.aio import ShardedBackend
from locknut.backends.redis.cluster.sync import blocking_cluster_backend
from locknut.backends.redis.layouts import FOREIGN, Layout
from locknut.backends.redis.layouts.aio import asyncio_foreign_backend
from locknut.backends.redis.layouts.foreign_backend import ForeignBackend
from locknut.backends.redis.layouts.sync import blocking_foreign_backend
from locknut.backends.redis.sync import blocking_backend
from locknut.core import validation
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.core.values import KeyPolicy
from locknut.drivers.redis import sentinel, settings
from locknut.drivers.redis.client_settings import endpoint_of
from locknut.drivers.redis.cluster import routing
from locknut.drivers.redis.cluster.routing import Cluster
from locknut.drivers.redis.endpoints import ConfiguredEndpoint, FixedEndpoint
from locknut.drivers.redis.pools import Pool
from locknut.drivers.redis.sentinel import Sentinels
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url


class RedisEngine(BaseEngine):
    """One database of one server at a time, in the layout that the URL names."""

    def __init__(self, endpoint: ConfiguredEndpoint, id: str, layout: Layout | None = None):  # noqa: A002  # the name of the option
        self._endpoint = endpoint
        self._layout = layout
        self._id = id
        self.key_policy = KeyPolicy() if layout is None else layout.key_policy
        self.id = id if layout is None else f"{id}?layout={layout.name}"

    def blocking(self, runtime: Runtime) -> RedisBackend | ForeignBackend:
        if self._layout is not None:
            return blocking_foreign_backend(Pool(self._endpoint, runtime), self._layout, runtime)
        return blocking_backend(Pool(self._endpoint, runtime), runtime)

    def asyncio(self, runtime: Runtime) -> RedisBackend | ForeignBackend:
        if self._layout is not None:
            return asyncio_foreign_backend(self._endpoint, self._layout, runtime)
        return asyncio_backend(self._endpoint, runtime)

    def anew(self) -> RedisEngine:
        """What was learned of the server is the parent's, and its mutex may be held there."""
        return RedisEngine(self._endpoint.anew(), self._id, self._layout)


class ClusterEngine(BaseEngine):
    """All the masters of a cluster."""

    id = "redis+cluster"

    def __init__(self, cluster: Cluster):
        self._cluster = cluster

    def blocking(self, runtime: Runtime) -> RedisBackend:
        return blocking_cluster_backend(self._cluster, runtime)

    def asyncio(self, runtime: Runtime) -> RedisBackend:
        return ShardedBackend(self._cluster, runtime)

    def anew(self) -> ClusterEngine:
        return ClusterEngine(self._cluster.anew())


def from_client(client: Any, layout: str = "") -> RedisEngine | ClusterEngine:
    """The engine that a user's own client leads to."""
    endpoint = endpoint_of(client)
    if isinstance(endpoint, Cluster):
        return ClusterEngine(endpoint)
    return _server(endpoint, FOREIGN.get(layout))


def open_url(url: Url) -> RedisEngine | ClusterEngine:
    """The engine for any of the URLs that lead to a Redis or Valkey."""
    behind_sentinels = url.scheme.endswith("+sentinel")
    known = (*sentinel.OPTIONS, *settings.OPTIONS) if behind_sentinels else settings.OPTIONS
    validation.check_options("redis", url.options, (*known, "layout"))
    options = dict(url.options)
    layout = _layout(url, options.pop("layout", ""))
    url = type(url)(url.scheme, url.netloc, url.path, options)
    if url.scheme.endswith("+cluster"):
        return ClusterEngine(routing.read(url))
    endpoint = sentinel.read(url) if behind_sentinels else FixedEndpoint(settings.read(url))
    return _server(endpoint, layout)


def _layout(url: Url, wanted: str) -> Layout | None:
    """The layout that the URL names; None for our own."""
    message = ""
    if "layout" in url.options and url.scheme.endswith("+cluster"):
        message = "layout= is for one server or Sentinels: in a cluster it is not supported"
    elif wanted and wanted not in FOREIGN:
        message = f"layout must be {' or '.join(FOREIGN)}, or not be given; got {wanted!r}"
    elif wanted and "wait_replicas" in url.options:
        message = "wait_replicas= is for our own layout: with layout= it is not supported"
    if message:
        raise ConfigurationError(message, backend="redis")
    return FOREIGN.get(wanted)


def _server(endpoint: FixedEndpoint | Sentinels, layout: Layout | None = None) -> RedisEngine:
    if isinstance(endpoint, Sentinels):
        return RedisEngine(
            endpoint, f"redis+sentinel:{endpoint.service}/{endpoint.settings.db}", layout
        )
    return RedisEngine(endpoint, f"redis:{endpoint.settings.place}/{endpoint.settings.db}", layout)
