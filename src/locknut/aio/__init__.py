"""Locknut for asyncio: the same names as `locknut`, awaited.

>>> import asyncio
>>> from locknut import aio
>>> async def main():
...     async with aio.lock("report") as lease:
...         assert lease.fence > 0
>>> asyncio.run(main())
"""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from locknut.aio.lease import Lease, Leases
from locknut.aio.lock import Lock, RWLock, Semaphore
from locknut.aio.locks import Locks, all_of, connect, redlock
from locknut.aio.several import Together

_default: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Locks] = weakref.WeakKeyDictionary()


def default() -> Locks:
    """The Locks behind `locknut.aio.lock(...)`: one for the running loop."""
    loop = asyncio.get_running_loop()
    locks = _default.get(loop)
    if locks is None or locks._client.closed:
        locks = _default[loop] = connect()
    return locks


def lock(name: str, *args: Any, **options: Any) -> Lock:  # the options of Locks.lock
    """A lock with no configuration at all."""
    return default().lock(name, *args, **options)


def rwlock(name: str, *args: Any, **options: Any) -> RWLock:  # as above
    """A read-write lock with no configuration at all."""
    return default().rwlock(name, *args, **options)


def semaphore(name: str, permits: int, *args: Any, **options: Any) -> Semaphore:  # as above
    """A semaphore with no configuration at all."""
    return default().semaphore(name, permits, *args, **options)


__all__ = [
    "Lease",
    "Leases",
    "Lock",
    "Locks",
    "RWLock",
    "Semaphore",
    "Together",
    "all_of",
    "connect",
    "default",
    "lock",
    "redlock",
    "rwlock",
    "semaphore",
]
