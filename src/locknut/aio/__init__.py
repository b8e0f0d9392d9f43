"""Locknut for asyncio: the same names as `locknut`, awaited.

>>> import asyncio
>>> from locknut import aio
>>> async def main():
...     async with aio.lock("report", timeout=5) as lease:    # waits 5 s at most
...         assert lease.fence > 0
...     lease = await aio.lock("report").acquire()            # a Lease, or None
...     await lease.release()
>>> asyncio.run(main())

What does I/O is awaited: `acquire`, `release`, `info`, `list`, `ping`. Making a lock is not. When a
hold is lost, the body of its `async with` is cancelled. help(locknut) has the list of functions.
"""

from __future__ import annotations

import asyncio
import builtins
import weakref
from typing import TYPE_CHECKING, Literal, Unpack, overload

from locknut.aio.decorator import Decorator, SkippingDecorator, decorator
from locknut.aio.lease import Lease, Leases
from locknut.aio.lock_group import LockGroup, all_of
from locknut.aio.locks import Locks, connect, waits_for
from locknut.aio.primitives import Lock, RWLock, Semaphore
from locknut.aio.uses import election, history, once, rwlock, semaphore
from locknut.core.validation import Duration
from locknut.core.values import LockInfo, Ping
from locknut.faces.late_names import LATE, late_names
from locknut.faces.locks_base import Decoration
from locknut.faces.misuse import answered
from locknut.faces.options import LockKeywords, OnBusy, OnLost, check_options

if TYPE_CHECKING:
    from locknut.aio.barriers import Barrier, Latch
    from locknut.aio.leadership import Election, Term
    from locknut.aio.scheduled_run import Once

_default: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Locks] = weakref.WeakKeyDictionary()


def default() -> Locks:
    """Return the Locks behind `locknut.aio.lock(...)`: one for each running loop."""
    loop = asyncio.get_running_loop()
    locks = _default.get(loop)
    if locks is None or locks._client.closed:
        locks = _default[loop] = connect()
    return locks


@answered
def lock(  # noqa: PLR0913  # the options of a lock, each by name
    name: str,
    ttl: Duration | None = None,
    timeout: Duration | None = None,
    *,
    auto_renew: bool = True,
    max_hold: Duration | None = None,
    fair: bool = False,
    owner: str | None = None,
    on_lost: OnLost = None,
) -> Lock:
    """Make a re-entrant lock. `timeout`: how long to wait; `ttl`: its life without renewal."""
    return default().lock(
        name,
        ttl,
        timeout,
        auto_renew=auto_renew,
        max_hold=max_hold,
        fair=fair,
        owner=owner,
        on_lost=on_lost,
    )


@answered
def all(  # noqa: A001  # the same name as the method's
    *names: str,
    ttl: Duration | None = None,
    timeout: Duration | None = None,
    auto_renew: bool = True,
    max_hold: Duration | None = None,
) -> LockGroup:
    """Take several locks at once: all or none, and two callers never deadlock."""
    return default().all(*names, ttl=ttl, timeout=timeout, auto_renew=auto_renew, max_hold=max_hold)


@overload
def locked(
    template: str,
    *,
    timeout: Duration | None = None,
    on_busy: Literal["skip"],
    **options: Unpack[LockKeywords],
) -> SkippingDecorator: ...


@overload
def locked(
    template: str,
    *,
    timeout: Duration | None = None,
    on_busy: Literal["raise", "wait"] = "raise",
    **options: Unpack[LockKeywords],
) -> Decorator: ...


@answered
def locked(  # noqa: PLR0913  # as lock()
    template: str,
    *,
    timeout: Duration | None = None,
    on_busy: OnBusy = "raise",
    ttl: Duration | None = None,
    auto_renew: bool = True,
    max_hold: Duration | None = None,
    fair: bool = False,
    owner: str | None = None,
    on_lost: OnLost = None,
) -> SkippingDecorator:
    """Run a function under a lock named after its arguments: "user:{user_id}".

    The engine is chosen when the function is called.
    """
    options = LockKeywords(
        ttl=ttl,
        auto_renew=auto_renew,
        max_hold=max_hold,
        fair=fair,
        owner=owner,
        on_lost=on_lost,
    )
    given = Decoration(lambda: default(), template, on_busy, timeout, options)  # noqa: PLW0108  # may be replaced
    check_options(given.timeout, options)
    return decorator(given)


async def info(name: str) -> LockInfo:
    """Return who holds the lock of this name and who waits for it."""
    return await default().info(name)


async def list(pattern: str | None = None) -> builtins.list[LockInfo]:  # noqa: A001  # as all()
    """Return the locks that are held or waited for, or those that match "order:*"."""
    return await default().list(pattern)


async def force_release(name: str, fence: int | None = None, *, reason: str = "") -> bool:
    """Break a hold; with `fence`, only that one. Return False if nobody held the lock."""
    return await default().force_release(name, fence, reason=reason)


async def ping(timeout: Duration = 5.0) -> Ping:
    """Check that the engine works: take a lock and release it within `timeout`."""
    return await default().ping(timeout)


def __dir__() -> builtins.list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # or every misspelt name would pass a type checker
    __getattr__ = late_names(__name__, "locknut.aio")


__all__ = [
    "Barrier",
    "Election",
    "Latch",
    "Lease",
    "Leases",
    "Lock",
    "LockGroup",
    "Locks",
    "Once",
    "RWLock",
    "Semaphore",
    "Term",
    "all",
    "all_of",
    "connect",
    "default",
    "election",
    "force_release",
    "history",
    "info",
    "list",
    "lock",
    "locked",
    "once",
    "ping",
    "rwlock",
    "semaphore",
    "waits_for",
]

for _public in [globals()[_name] for _name in __all__ if _name not in LATE]:
    if _public.__module__.startswith("locknut.aio."):
        _public.__module__ = __name__  # in pickles and reprs: users know no other place
