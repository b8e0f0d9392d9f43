"""Locknut: locks across threads, processes and machines. The blocking API.

>>> import locknut
>>> with locknut.lock("report", timeout=5) as lease:    # waits 5 s at most, or AcquireTimeout
...     assert lease.fence > 0                          # grows with every hold of this name
...     lease.check()                                   # LeaseLost if it is no longer ours
>>> with locknut.connect("memory:") as locks:           # or file:, redis:, redlock:, zookeeper:
...     lease = locks.lock("report").acquire(blocking=False)    # a Lease, or None
>>> @locknut.locked("user:{user_id}", on_busy="skip")   # not run while it is already running
... def refresh(user_id): ...

These functions use the engine at $LOCKNUT_URL, or else files of this user:

    lock(name)              a re-entrant lock
    rwlock(name)            many readers or one writer
    semaphore(name, n)      at most n at a time
    all(*names)             several at once, without a deadlock; all_of(*locks) of several engines
    locked(template)        a decorator: the function runs under a lock
    election(name)          one leader at a time, and stand-ins
    once(name, per="24h")   at most one run for each slot of a schedule, on all hosts
    info(name), list()      who holds and who waits; history(): what happened
    waits_for()             who waits for whom, and deadlocks
    force_release(name)     break a hold
    ping()                  whether the engine works
    connect(url)            a Locks, which has all of these as methods

Locks: one engine.

    lock, rwlock, semaphore, all, locked, once, election as above
    info, list, history, waits_for, force_release, ping as above
    barrier(name, parties), latch(name, count)      where processes wait for each other
    doctor()                what makes locks unsafe or slow on this engine
    attach(text)            take over a hold from another process: see Lease.detach()
    on_event(listener)      learn of every wait, grant, loss ...
    close()                 release everything; `with` does it too

Lock: a name to lock, as often as you like.

    with lock as lease:     wait for it, hold it, release it
    acquire(blocking=True, timeout=None)        a Lease, or None if it was not free in time
    release(), held         what this thread has
    locked(), info()        what anybody has

Lease: one hold.

    fence                   grows with every hold: let the resource refuse smaller ones
    held, check()           whether it is still ours: a bool; raises LeaseLost if not
    lost, on_lost(callback) wait for the loss; be called
    state, remaining, reason
    renew(), release(), detach()

Errors: LocknutError is the base of all: AcquireTimeout (also a TimeoutError), LeaseLost, NotHeld,
StaleFence, Unsupported, DeadlockDetected, BrokenBarrier, ConfigurationError, BackendError,
BackendUnavailable.

`locknut.aio` has the same names for asyncio. help(locknut.Locks), help(locknut.Lock) and
help(locknut.Lease) say more than the long list below.
"""

from __future__ import annotations

import builtins
import os
import threading
from typing import TYPE_CHECKING, Literal, Unpack, overload

from locknut.blocking.decorator import Decorator, SkippingDecorator, decorator
from locknut.blocking.lease import Lease, Leases
from locknut.blocking.lock_group import LockGroup, all_of
from locknut.blocking.locks import Locks, connect, waits_for
from locknut.blocking.primitives import Lock, RWLock, Semaphore
from locknut.blocking.uses import (
    election,
    force_release,
    history,
    info,
    once,
    ping,
    rwlock,
    semaphore,
)
from locknut.core.history_entries import HistoryEntry
from locknut.core.validation import Duration
from locknut.core.values import (
    Capability,
    Detail,
    Event,
    Finding,
    Holder,
    LockInfo,
    Mode,
    Ping,
    Severity,
    State,
)
from locknut.errors import (
    AcquireTimeout,
    BackendError,
    BackendUnavailable,
    BlockingInLoopWarning,
    BrokenBarrier,
    ConfigurationError,
    DeadlockDetected,
    LeaseLost,
    LocknutError,
    NotHeld,
    StaleFence,
    Unsupported,
)
from locknut.faces.late_names import LATE, late_names
from locknut.faces.locks_base import Decoration
from locknut.faces.misuse import answered
from locknut.faces.options import LockKeywords, OnBusy, OnLost, check_options

if TYPE_CHECKING:
    from locknut.blocking.barriers import Barrier, Latch
    from locknut.blocking.leadership import Election, Term
    from locknut.blocking.scheduled_run import Once

__version__ = "0.1.0"

_default: builtins.list[Locks] = []
_mutex = threading.Lock()


def default() -> Locks:
    """Return the Locks behind `locknut.lock(...)`: at $LOCKNUT_URL, or files of this user."""
    with _mutex:
        if not _default or _default[0]._client.closed:
            _default[:] = [connect()]
        return _default[0]


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


def list(pattern: str | None = None) -> builtins.list[LockInfo]:  # noqa: A001  # as all()
    """Return the locks that are held or waited for, or those that match "order:*"."""
    return default().list(pattern)


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _mutex = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def __dir__() -> builtins.list[str]:
    packages = {"aio", "errors", "guards"} & globals().keys()  # those that were imported
    return sorted([*__all__, *packages, "__version__"])


if not TYPE_CHECKING:  # or every misspelt name would pass a type checker
    __getattr__ = late_names(__name__, "locknut.blocking")


__all__ = [
    "AcquireTimeout",
    "BackendError",
    "BackendUnavailable",
    "Barrier",
    "BlockingInLoopWarning",
    "BrokenBarrier",
    "Capability",
    "ConfigurationError",
    "DeadlockDetected",
    "Detail",
    "Election",
    "Event",
    "Finding",
    "HistoryEntry",
    "Holder",
    "Latch",
    "Lease",
    "LeaseLost",
    "Leases",
    "Lock",
    "LockGroup",
    "LockInfo",
    "LocknutError",
    "Locks",
    "Mode",
    "NotHeld",
    "Once",
    "Ping",
    "RWLock",
    "Semaphore",
    "Severity",
    "StaleFence",
    "State",
    "Term",
    "Unsupported",
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
    if _public.__module__.startswith("locknut.blocking."):
        _public.__module__ = __name__  # in pickles and reprs: users know no other place
