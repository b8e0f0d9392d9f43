"""Which Locks keeps the locks of a client of redis-py: one for each of its connection pools.

A pool is what lives as long as a program: many make a new `redis.Redis` around it for each request.
The Locks goes with the pool. A hold with a `timeout` does not: as in redis-py it lasts until then,
whatever becomes of the objects and the process that took it.
"""

from __future__ import annotations

import asyncio
import atexit
import weakref
from collections.abc import AsyncIterator, MutableMapping
from typing import Any, Final

from locknut.aio.locks import Locks as AsyncioLocks
from locknut.backends.redis import from_client
from locknut.blocking.locks import Locks as BlockingLocks
from locknut.core import closing
from locknut.core.client import Client
from locknut.core.ports import Engine
from locknut.errors import Unsupported
from locknut.runtimes.cpython import members

Pools = MutableMapping[Any, Any]

_LAYOUT: Final = "redis-py"
_blocking: Pools = weakref.WeakKeyDictionary()
"""The Locks of each pool."""
_asyncio: Pools = weakref.WeakKeyDictionary()
"""For each pool: the Locks of each loop, and what closes it."""


def pool_of(client: Any) -> Any:
    """Return the connection pool of this client, which says where its server is."""
    if hasattr(client, "nodes_manager"):
        message = (
            "locks of redis-py on a cluster are not supported; use locknut.connect(client), whose "
            "locks and those of redis-py do not exclude each other"
        )
        raise Unsupported(message, backend="redis")
    return client.connection_pool


def blocking_client(pool: Any) -> Client:
    """Return what keeps the locks of threads."""
    locks = _blocking.get(pool)
    if locks is None:
        locks = _blocking.setdefault(pool, BlockingLocks(_engine(pool)))
        weakref.finalize(pool, _leave, locks).atexit = False
    return locks._client  # type: ignore[no-any-return]  # what the dictionaries have is Any


async def asyncio_client(pool: Any) -> Client:
    """Return what keeps the locks of tasks on the running loop."""
    loop = asyncio.get_running_loop()
    loops = _asyncio.get(pool)
    if loops is None:
        loops = _asyncio.setdefault(pool, weakref.WeakKeyDictionary())
    known = loops.get(loop)
    if known is None:
        locks = AsyncioLocks(_engine(pool))
        known = loops[loop] = (locks, _close_with_the_loop(locks))
        await anext(known[1])
    return known[0]._client  # type: ignore[no-any-return]  # as above


async def _close_with_the_loop(locks: AsyncioLocks) -> AsyncIterator[None]:
    """Nobody is asked to close it. `asyncio.run` closes what was iterated over and not ended; and
    a loop does so, if nobody refers to it any more: when the pool was collected.
    """
    try:
        yield
    finally:
        _forget_timed(locks._made)
        await locks.close()


def _engine(pool: Any) -> Engine:
    return from_client(_Pooled(pool), _LAYOUT)


class _Pooled:
    """As much of a client as its settings are read from."""

    def __init__(self, pool: Any):
        self.connection_pool = pool


def _leave(locks: BlockingLocks) -> None:
    """The pool was collected, and with it all its locks. From a destructor: the rest is done later,
    on another thread.
    """
    made = locks._made
    if not made.closed:
        made.closed = "the connection pool of redis-py is gone"
        made.later(lambda _: _close(made))


async def _close(client: Client) -> None:
    _forget_timed(client)
    await closing.end(client)


def _forget_timed(client: Client) -> None:
    """What has a timeout stays until then: it is forgotten here before others give it back."""
    with client.guard:
        for hold in list(client.holds.values()):
            if not hold.options.auto_renew:
                client.drop(hold)


def _at_exit() -> None:
    # By their pools and loops: other threads still use the dictionaries.
    for pool in members(_blocking):
        _forget_timed(_blocking[pool]._made)
    for pool in members(_asyncio):
        for loop in members(loops := _asyncio[pool]):
            _forget_timed(loops[loop][0]._made)


atexit.register(_at_exit)
