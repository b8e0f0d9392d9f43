"""What people do with the default Locks, which is chosen when it is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.blocking.primitives import RWLock, Semaphore
from locknut.core.history_entries import HistoryEntry
from locknut.core.validation import Duration
from locknut.core.values import LockInfo, Ping
from locknut.faces.misuse import answered
from locknut.faces.options import OnLost

if TYPE_CHECKING:
    from locknut.blocking.leadership import Election
    from locknut.blocking.locks import Locks
    from locknut.blocking.scheduled_run import Once
    from locknut.faces.slots import At


def _default() -> Locks:
    import locknut  # it imports this

    return locknut.default()


@answered
def rwlock(
    name: str,
    ttl: Duration | None = None,
    timeout: Duration | None = None,
    *,
    auto_renew: bool = True,
    max_hold: Duration | None = None,
    on_lost: OnLost = None,
) -> RWLock:
    """Make a lock for many readers or one writer: its `.read()` and `.write()` are locks."""
    return _default().rwlock(
        name, ttl, timeout, auto_renew=auto_renew, max_hold=max_hold, on_lost=on_lost
    )


@answered
def semaphore(  # noqa: PLR0913  # as lock()
    name: str,
    permits: int,
    ttl: Duration | None = None,
    timeout: Duration | None = None,
    *,
    auto_renew: bool = True,
    max_hold: Duration | None = None,
    fair: bool = False,
    on_lost: OnLost = None,
) -> Semaphore:
    """Make a semaphore: at most `permits` holders at a time, each with its own lease."""
    return _default().semaphore(
        name,
        permits,
        ttl,
        timeout,
        auto_renew=auto_renew,
        max_hold=max_hold,
        fair=fair,
        on_lost=on_lost,
    )


def info(name: str) -> LockInfo:
    """Return who holds the lock of this name and who waits for it."""
    return _default().info(name)


def force_release(name: str, fence: int | None = None, *, reason: str = "") -> bool:
    """Break a hold; with `fence`, only that one. Return False if nobody held the lock."""
    return _default().force_release(name, fence, reason=reason)


def ping(timeout: Duration = 5.0) -> Ping:
    """Check that the engine works: take a lock and release it within `timeout`."""
    return _default().ping(timeout)


def history(pattern: str | None = None, *, since: Duration | None = None) -> list[HistoryEntry]:
    """Return what happened to the locks here, or to those that match "order:*"; newest last."""
    return _default().history(pattern, since=since)


@answered
def election(name: str, ttl: Duration | None = None) -> Election:
    """Make an election: one leader at a time does the work, and stand-ins take over.

    The engine is chosen when it is used.
    """
    from locknut.blocking.leadership import Election  # few programs need it

    return Election(_default, name, ttl)


@answered
def once(  # noqa: PLR0913  # as Locks.once()
    name: str,
    per: Duration | None = None,
    *,
    at: At | None = None,
    at_least: Duration | None = None,
    at_most: Duration | None = None,
    retry: bool = False,
    ttl: Duration | None = None,
) -> Once:
    """Run something at most once for each slot of a schedule, across all hosts.

    The engine is chosen when it is used.
    """
    from locknut.blocking.scheduled_run import Once  # few programs need it

    return Once(
        *(_default, name, per, at),
        at_least=at_least,
        at_most=at_most,
        retry=retry,
        ttl=ttl,
    )
