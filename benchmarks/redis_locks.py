"""The Redis locks that are compared: bare sockets, Locknut in both colours, and the peers.

The place of each is the URL of a server. Peers run with the settings they come with, except that
they wait for as long as it takes; those that must be given an expiry get 30 seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import locknut
import locknut.aio
from benchmarks import holding, redis_bare
from benchmarks.kinds import Kind, Opened, Pair
from benchmarks.redis_bare import GRANT, PAIR

TTL, SHORT = 30, int(holding.TTL)


def ours(url: str, **options: Any) -> Opened:
    locks = locknut.connect(url)
    return lambda name: _pair(locks.lock(name, **options))


def ours_asyncio(url: str, **options: Any) -> Opened:
    locks = locknut.aio.connect(url)
    return lambda name: _pair(locks.lock(name, **options))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


def _client(url: str, module: str = "redis") -> Any:
    """A pool with room for everybody: 100 is its default since redis-py 6, and tasks are many."""
    return import_module(module).Redis.from_url(url, max_connections=1000)


def redis_py(url: str) -> Opened:
    client = _client(url)
    return lambda name: _pair(client.lock(name, timeout=TTL))


def redis_asyncio(url: str) -> Opened:
    client = _client(url, "redis.asyncio")
    return lambda name: _pair(client.lock(name, timeout=TTL))


def python_redis_lock(url: str, **options: Any) -> Opened:
    client, make = _client(url), import_module("redis_lock").Lock
    return lambda name: _pair(make(client, name, **{"expire": TTL, **options}))


def pottery(url: str) -> Opened:
    client, make = _client(url), import_module("pottery").Redlock
    return lambda name: _pair(make(key=name, masters={client}, auto_release_time=TTL))


def pottery_asyncio(url: str) -> Opened:
    client, make = _client(url, "redis.asyncio"), import_module("pottery").AIORedlock
    return lambda name: _pair(make(key=name, masters={client}, auto_release_time=TTL))


def redlock_ng(url: str) -> Opened:
    client = import_module("redlock").Redlock([url])

    def opened(name: str) -> Pair:
        held: list[Any] = []

        def acquire() -> None:
            held.append(client.acquire(name, TTL * 1000, blocking=True))

        return Pair(acquire, lambda: client.release(held.pop()))

    return opened


def redlock_ng_asyncio(url: str) -> Opened:
    client = import_module("redlock").AsyncRedlock([url])
    return lambda name: _remembering(
        lambda: client.acquire(name, TTL * 1000, blocking=True), client.release
    )


def redis_fifo_lock(url: str, **options: Any) -> Opened:
    client, make = _client(url, "redis.asyncio"), import_module("redis_fifo_lock").FifoLock

    def opened(name: str) -> Pair:
        lock = make(client, name, **options)
        return _remembering(lock.acquire, lock.release)

    return opened


def _remembering(acquire: Callable[[], Any], release: Callable[[Any], Any]) -> Pair:
    """For those whose release wants to be told what it releases."""
    held: list[Any] = []

    async def acquired() -> None:
        held.append(await acquire())

    return Pair(acquired, lambda: release(held.pop()))


def portalocker(url: str) -> Opened:
    client, make = _client(url), import_module("portalocker").RedisLock
    return lambda name: _pair(make(name, client, timeout=3600))


BARE = "bare socket"
BARE_GRANT = "bare grant"
BARE_ASYNCIO = "bare asyncio"
BARE_ASYNCIO_GRANT = "bare asyncio grant"
BARE_BATCH = "bare batch"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
UVLOOP = "locknut.aio, uvloop"
REDIS_PY = "redis-py"
REDIS_ASYNCIO = "redis.asyncio"
REDIS_UVLOOP = "redis.asyncio, uvloop"
PYTHON_REDIS_LOCK = "python-redis-lock"
FIFO = "redis-fifo-lock"
_SCRIPTED = ("evalsha", "blpop", "ping")
_POLLING = ("set", "evalsha", "eval")
_PUBSUB = ("subscribe", "unsubscribe", "pubsub|numsub", "publish", "client|setname", "ping")
KINDS = {
    BARE: Kind(partial(redis_bare.blocking, scripts=PAIR), sends=_SCRIPTED),
    BARE_GRANT: Kind(partial(redis_bare.blocking, scripts=GRANT), sends=_SCRIPTED),
    BARE_ASYNCIO: Kind(partial(redis_bare.awaited, scripts=PAIR), True, sends=_SCRIPTED),
    BARE_ASYNCIO_GRANT: Kind(partial(redis_bare.awaited, scripts=GRANT), True, sends=_SCRIPTED),
    BARE_BATCH: Kind(redis_bare.batch, hold=redis_bare.batch),
    BLOCKING: Kind(ours, sends=_SCRIPTED, hold=partial(ours, ttl=SHORT)),
    ASYNCIO: Kind(ours_asyncio, True, sends=_SCRIPTED, hold=partial(ours_asyncio, ttl=SHORT)),
    UVLOOP: Kind(ours_asyncio, True, True, sends=_SCRIPTED),
    REDIS_PY: Kind(redis_py, module="redis", interval=0.1, sends=_POLLING),
    REDIS_ASYNCIO: Kind(redis_asyncio, True, module="redis", interval=0.1, sends=_POLLING),
    REDIS_UVLOOP: Kind(redis_asyncio, True, True, module="redis", interval=0.1, sends=_POLLING),
    PYTHON_REDIS_LOCK: Kind(
        python_redis_lock,
        module="redis_lock",
        package="python-redis-lock",
        sends=("set", "evalsha", "blpop"),
        hold=partial(python_redis_lock, expire=SHORT, auto_renewal=True),
    ),
    "pottery": Kind(pottery, module="pottery", interval=0.2, sends=_POLLING),
    "pottery, asyncio": Kind(pottery_asyncio, True, module="pottery", interval=0.2, sends=_POLLING),
    "redlock-ng": Kind(
        redlock_ng, module="redlock", package="redlock-ng", interval=0.3, sends=_POLLING
    ),
    "redlock-ng, asyncio": Kind(
        redlock_ng_asyncio,
        True,
        module="redlock",
        package="redlock-ng",
        interval=0.3,
        sends=_POLLING,
    ),
    FIFO: Kind(
        redis_fifo_lock,
        True,
        module="redis_fifo_lock",
        package="redis-fifo-lock",
        sends=_SCRIPTED,
        hold=partial(redis_fifo_lock, lease_ms=SHORT * 1000),
    ),
    "portalocker": Kind(portalocker, module="portalocker", interval=0.25, sends=_PUBSUB),
}
