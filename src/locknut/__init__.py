"""Locknut: locks across threads, processes and machines. The blocking API.

>>> import locknut
>>> with locknut.lock("report") as lease:
...     assert lease.fence > 0

`locknut.aio` has the same names for asyncio.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from locknut.core.values import Capability, Event, Holder, LockInfo, Mode, NodeInfo, State, Vote
from locknut.errors import (
    AcquireTimeout,
    BackendError,
    BackendUnavailable,
    ConfigurationError,
    DeadlockDetected,
    LeaseLost,
    LocknutError,
    NotHeld,
    StaleFence,
    Unsupported,
)
from locknut.lease import Lease, Leases
from locknut.lock import Lock, RWLock, Semaphore
from locknut.locks import Locks, all_of, connect, redlock
from locknut.several import Together

__version__ = "0.1.0"

_default: list[Locks] = []
_mutex = threading.Lock()


def default() -> Locks:
    """The Locks behind `locknut.lock(...)`: $LOCKNUT_URL, or files of this user."""
    with _mutex:
        if not _default or _default[0]._client.closed:
            _default[:] = [connect()]
        return _default[0]


def lock(name: str, *args: Any, **options: Any) -> Lock:  # the options of Locks.lock
    """A lock with no configuration at all."""
    return default().lock(name, *args, **options)


def rwlock(name: str, *args: Any, **options: Any) -> RWLock:  # as above
    """A read-write lock with no configuration at all."""
    return default().rwlock(name, *args, **options)


def semaphore(name: str, permits: int, *args: Any, **options: Any) -> Semaphore:  # as above
    """A semaphore with no configuration at all."""
    return default().semaphore(name, permits, *args, **options)


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _mutex = threading.Lock()
    _default.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = [
    "AcquireTimeout",
    "BackendError",
    "BackendUnavailable",
    "Capability",
    "ConfigurationError",
    "DeadlockDetected",
    "Event",
    "Holder",
    "Lease",
    "LeaseLost",
    "Leases",
    "Lock",
    "LockInfo",
    "LocknutError",
    "Locks",
    "Mode",
    "NodeInfo",
    "NotHeld",
    "RWLock",
    "Semaphore",
    "StaleFence",
    "State",
    "Together",
    "Unsupported",
    "Vote",
    "all_of",
    "connect",
    "default",
    "lock",
    "redlock",
    "rwlock",
    "semaphore",
]
