"""Who migrates: one process at a time, never one that waits for itself, and never without a bound.

A program may take the lock in several places: around `command.upgrade`, in `env.py`, by
`locknut run`. Whoever is inside already is not made to wait for itself: not in another task or
greenlet of the same program, and not in a process that `locknut run` has started under the lock.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from urllib.parse import unquote

from locknut import AcquireTimeout, BlockingInLoopWarning, Lease, Lock, Locks, State

NAME = "migrate"
TIMEOUT = "10m"

_Place = tuple[str, str, str]
_inside: ContextVar[dict[_Place, Lease]] = ContextVar("locknut_migrating")
"""A context is inherited by tasks and greenlets, where a lock is not."""


@contextmanager
def migration_hold(
    locks: Locks, name: str, timeout: float | str | None, *, ttl: float | str | None = None
) -> Iterator[Lease | None]:
    """Hold the lock, unless this program is inside it already; None if `locknut run` holds it."""
    place = (locks.place, locks.namespace, name)
    inside = _inside.get({})
    outer = inside.get(place)
    if outer is not None and outer.state is not State.RELEASED:
        outer.check()  # a hold that was lost is not a hold
        yield outer
        return
    if _held_above(locks, name):
        yield None
        return
    with ExitStack() as stack:
        lease = _entered(stack, locks.lock(name, ttl, timeout))
        mark = _inside.set({**inside, place: lease})
        stack.callback(_inside.reset, mark)
        yield lease


def _entered(stack: ExitStack, lock: Lock) -> Lease:
    with warnings.catch_warnings():
        # The loop of an asynchronous env.py has nothing else to do.
        warnings.simplefilter("ignore", BlockingInLoopWarning)
        try:
            return stack.enter_context(lock)
        except AcquireTimeout as busy:
            raise _explained(busy) from None


def _explained(busy: AcquireTimeout) -> AcquireTimeout:
    message = (
        f"nothing was migrated here, because another process is still at it: {busy.message}. "
        "If that process is gone, its lock ends by itself; if it hangs, end its session in the "
        f"database first, and then break the lock: locknut break {busy.key}"
    )
    return AcquireTimeout(message, key=busy.key, backend=busy.backend)


def _held_above(locks: Locks, name: str) -> bool:
    """Whether `locknut run` holds this very lock around this process: its fence tells."""
    entries = [each.rpartition("#") for each in os.environ.get("LOCKNUT_HELD", "").split(":")]
    fences = {fence for known, _, fence in entries if unquote(known) == name}
    if not fences:
        return False
    return any(str(holder.fence) in fences for holder in locks.info(name).holders)
