"""From a URL to a set of nodes, in both colours."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from locknut.backends.redlock import node_admin
from locknut.backends.redlock.aio import AsyncioBackend
from locknut.backends.redlock.node_info import NodeInfo
from locknut.backends.redlock.nodes import NodeSet, name_of
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.sync import BlockingBackend
from locknut.core import validation
from locknut.core.base import BaseEngine
from locknut.core.durations import spell
from locknut.core.ports import Runtime
from locknut.drivers.redis import sentinel, settings
from locknut.drivers.redis.endpoints import ConfiguredEndpoint, FixedEndpoint
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from locknut.urls import Url

MAX_TTL: Final = 60.0
NODE_LIMIT: Final = 0.3
_OWN: Final = ("max_ttl", "node_timeout", "durable", "set_name")
_SINGLE: Final = ("redis", "rediss", "redis+unix", "valkey", "valkeys", "valkey+unix")
_GROUPS: Final = ("redis+sentinel", "rediss+sentinel", "valkey+sentinel", "valkeys+sentinel")


class RedlockEngine(BaseEngine):
    """Several independent masters."""

    def __init__(
        self,
        servers: list[ConfiguredEndpoint],
        *,
        max_ttl: float,
        limit: float,
        durable: bool,
        set_name: str = "",
    ):
        _check(servers, max_ttl, limit)
        self._set: NodeSet | None = None
        self._mutex = threading.Lock()
        set_id = set_of([name_of(server) for server in servers], set_name)
        self._recipe = Recipe(max_ttl=max_ttl, durable=durable, set_id=set_id)
        self._limit = limit
        self._max_ttl, self._durable, self._set_name = max_ttl, durable, set_name
        self._servers = servers
        self.id = f"redlock:{len(servers)}"

    def blocking(self, runtime: Runtime) -> BlockingBackend:
        return BlockingBackend(self._known(runtime), self._recipe, self._limit, runtime)

    def look(self) -> list[NodeInfo]:
        """Each node as it is now."""
        return [node_admin.look(server, self._recipe) for server in self._servers]

    def begin(self, node: str | None = None, *, force: bool = False) -> None:
        """Let all nodes of a new set vote from now on, or one node that was new or away."""
        node_admin.begin(self._servers, self._recipe, node, force=force)

    def asyncio(self, runtime: Runtime) -> AsyncioBackend:
        return AsyncioBackend(self._known(runtime), self._recipe, self._limit, runtime)

    def _known(self, runtime: Runtime) -> NodeSet:
        """What is known of the nodes: one for all backends, which share their claims and debts."""
        with self._mutex:
            if self._set is None:
                self._set = NodeSet(self._servers, self._max_ttl, runtime.now)
            return self._set

    def anew(self) -> RedlockEngine:
        """For a forked child. The debts of the nodes stay with the parent: one of them may be the
        vote for a lock that the parent holds.
        """
        return RedlockEngine(
            [server.anew() for server in self._servers],
            max_ttl=self._max_ttl,
            limit=self._limit,
            durable=self._durable,
            set_name=self._set_name,
        )


def open_url(url: Url) -> RedlockEngine:
    """`redlock://h1,h2,h3`: user, password and options are the same for all nodes."""
    validation.check_options("redlock", url.options, (*_OWN, *settings.OPTIONS))
    _refuse_replicas(url)
    own = {str(name): url.options.pop(name) for name in _OWN if name in url.options}
    scheme = "rediss" if url.scheme == "redlocks" else "redis"
    servers = settings.read_hosts(type(url)(scheme, url.netloc, url.path, url.options))
    return _engine([FixedEndpoint(each) for each in servers], own)


def open_urls(urls: Sequence[Url], options: dict[str, str]) -> RedlockEngine:
    """Each node has a URL of its own, and with it its own user, password and options."""
    failover = settings.switch(options, "failover", default=False)
    return _engine([_node_at(url, failover=failover) for url in urls], options)


def _node_at(url: Url, *, failover: bool) -> ConfiguredEndpoint:
    """Where a node is to be found, if this URL is allowed for a node.

    A group behind Sentinels is opt-in (`failover=True`), because it loses something: a master that
    is cut off goes on voting beside its successor, so one node votes twice (S5). The page of the
    engine says what narrows that, and that the fence closes it.
    """
    _refuse_replicas(url)
    if url.scheme in _SINGLE:
        return FixedEndpoint(settings.read(url))
    if url.scheme in _GROUPS and failover:
        return sentinel.read(url)
    advice = (
        "failover=True allows it, and the page of redlock: says what that loses"
        if url.scheme in _GROUPS
        else f"use one of {', '.join(_SINGLE)}"
    )
    message = (
        f"a node of Redlock must be a single master, got {url.scheme}: a group behind Sentinels or "
        f"a cluster could vote twice after a failover; {advice}"
    )
    raise ConfigurationError(message, backend="redlock")


def _refuse_replicas(url: Url) -> None:
    """An option that is accepted without effect would promise what nobody keeps."""
    for option in ("wait_replicas", "wait_timeout"):
        if option in url.options:
            message = (
                f"{option}= is for redis: with its replicas; a vote of Redlock does not wait for "
                "replicas of its node, because a majority of the nodes has it: leave the option out"
            )
            raise _wrong(message)


def _engine(servers: list[ConfiguredEndpoint], options: Mapping[str, str]) -> RedlockEngine:
    return RedlockEngine(
        servers,
        max_ttl=validation.seconds(options.get("max_ttl", MAX_TTL), "max_ttl"),
        limit=validation.seconds(options.get("node_timeout", NODE_LIMIT), "node_timeout"),
        durable=settings.switch(dict(options), "durable", default=False),
        set_name=options.get("set_name", ""),
    )


def set_of(places: Sequence[str], name: str) -> str:
    """What tells this list of nodes from other lists, whose majorities may have no node in common.

    Clients that know the same nodes by different addresses have to give the list a name.
    """
    known = name or ",".join(sorted(place.lower() for place in places))
    return f"{len(places)}-{hashlib.sha256(known.encode()).hexdigest()[:12]}"


def _check(servers: list[ConfiguredEndpoint], max_ttl: float, limit: float) -> None:
    places = [name_of(server) for server in servers]
    twice = {place for place in places if places.count(place) > 1}
    if twice:
        raise _wrong(f"{', '.join(sorted(twice))} is listed twice: it would vote twice")
    if len(servers) < 3 or len(servers) % 2 == 0:
        message = (
            f"{len(servers)} nodes: Redlock needs an odd number of nodes, three or more; an even "
            "number survives no more failures than one node less"
        )
        raise _wrong(message)
    if not 2 <= max_ttl <= 86400:
        raise _wrong(f"max_ttl must be between 2 s and 24 h, got {spell(max_ttl)}")
    if not 0.01 <= limit <= max_ttl / 4:
        raise _wrong(
            f"node_timeout must be between 10 ms and a quarter of max_ttl, got {spell(limit)}"
        )


def _wrong(message: str) -> ConfigurationError:
    return ConfigurationError(message, backend="redlock")
