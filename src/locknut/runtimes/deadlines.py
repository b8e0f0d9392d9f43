"""How long a blocking command may still take: what its caller can wait, where that is less.

A thread cannot leave a command that it waits for. So the caller's deadline goes with the thread,
and whatever blocks asks here how long it may.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable
from typing import TypeVar

from locknut.runtimes.clock import now

T = TypeVar("T")


class _Current(threading.local):
    """The deadline of the calling thread."""

    until = math.inf


current = _Current()


async def within(work: Awaitable[T], until: float) -> T:
    """Run commands that may block no longer than this."""
    before = current.until
    try:
        current.until = min(before, until)
        return await work
    finally:
        current.until = before  # no call before it: an interrupt (Ctrl-C) would leave the deadline


def hurried() -> bool:
    """Whether the caller has a deadline."""
    return current.until != math.inf


def has_time() -> bool:
    """Whether anything can still be asked for this caller."""
    return now() < current.until


def time_left(limit: float) -> float:
    """Return how long a command with this limit of its own may take. Raise TimeoutError if there is
    no time left: then it must not be sent.
    """
    until = current.until
    if until == math.inf:
        return limit
    left = until - now()
    if left <= 0:
        raise TimeoutError("the caller has no time left")
    return min(limit, left)


def share(limit: float) -> float:
    """The same where several can be asked in turn: half of the time that is left, so that one which
    is silent leaves some to the others.
    """
    left = time_left(limit)
    return left if current.until == math.inf else min(left, (current.until - now()) / 2)
