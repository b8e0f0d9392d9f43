"""The locks on a majority that are compared: bare sockets, Locknut in both colours, and the peers.

The place of each is a `redlock:` URL. "one node" is the Redis engine on the last server alone.
Peers run with the settings they come with; those that must be given an expiry get 30 seconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from benchmarks import redlock_bare
from benchmarks.kinds import Kind, Opened, Pair
from benchmarks.redis_locks import TTL, ours, ours_asyncio
from benchmarks.redlock_bare import nodes_of


def urls_of(url: str) -> list[str]:
    return [f"redis://{host}:{port}" for host, port in nodes_of(url)]


def one_node(url: str) -> Opened:
    return ours(urls_of(url)[-1])


def one_node_asyncio(url: str) -> Opened:
    return ours_asyncio(urls_of(url)[-1])


def pottery(url: str) -> Opened:
    make = import_module("pottery").Redlock
    masters = {import_module("redis").Redis.from_url(each) for each in urls_of(url)}

    def opened(name: str) -> Pair:
        lock = make(key=name, masters=masters, auto_release_time=TTL)
        return Pair(lock.acquire, lock.release)

    return opened


def redlock_ng(url: str) -> Opened:
    client = import_module("redlock").Redlock(urls_of(url))
    return lambda name: _holding(
        lambda: client.acquire(name, TTL * 1000, blocking=True), client.release
    )


def redlock_py(url: str) -> Opened:
    client = import_module("redlock_py.redlock").Redlock(urls_of(url), retry_count=10**9)
    return lambda name: _holding(lambda: client.lock(name, TTL * 1000), client.unlock)


def _holding(acquire: Any, release: Any) -> Pair:
    """For those whose release wants to be told what it releases."""
    held: list[Any] = []
    return Pair(lambda: held.append(acquire()), lambda: release(held.pop()))


BARE = "bare sockets"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
ONE = "locknut, one node"
ONE_ASYNCIO = "locknut.aio, one node"
PEERS = ("pottery", "redlock-ng", "redlock-py")
KINDS = {
    BARE: Kind(redlock_bare.blocking),
    BLOCKING: Kind(ours),
    ASYNCIO: Kind(ours_asyncio, True),
    ONE: Kind(one_node),
    ONE_ASYNCIO: Kind(one_node_asyncio, True),
    "pottery": Kind(pottery, module="pottery", interval=0.2),
    "redlock-ng": Kind(redlock_ng, module="redlock", package="redlock-ng", interval=0.3),
    "redlock-py": Kind(redlock_py, module="redlock_py.redlock", package="redlock-py", interval=0.2),
}
