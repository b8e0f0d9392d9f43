"""The ZooKeeper locks that are compared: a bare socket, Locknut in both colours, and kazoo.

The place of each is the URL of a server or of an ensemble. kazoo runs with the settings it comes
with; callers of one process share a client, and have a `Lock` each.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import locknut
import locknut.aio
from benchmarks import zookeeper_bare
from benchmarks.kinds import Kind, Opened, Pair


def ours(url: str) -> Opened:
    locks = locknut.connect(url)
    return lambda name: _pair(locks.lock(name))


def ours_asyncio(url: str) -> Opened:
    locks = locknut.aio.connect(url)
    return lambda name: _pair(locks.lock(name))


def kazoo(url: str) -> Opened:
    client = import_module("kazoo.client").KazooClient(url.removeprefix("zookeeper://"))
    client.start()
    return lambda name: _pair(client.Lock(f"/kazoo/{name}"))


def _pair(lock: Any) -> Pair:
    return Pair(lock.acquire, lock.release)


BARE = "bare socket"
BLOCKING = "locknut"
ASYNCIO = "locknut.aio"
KAZOO = "kazoo"
KINDS = {
    BARE: Kind(zookeeper_bare.blocking, module="kazoo"),
    BLOCKING: Kind(ours, module="kazoo"),
    ASYNCIO: Kind(ours_asyncio, True, module="kazoo"),
    KAZOO: Kind(kazoo, module="kazoo"),
}
