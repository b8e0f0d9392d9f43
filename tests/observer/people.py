"""Those who hold locks and wait for them while somebody looks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import locknut
from tests.servers.processes import until


def held(locks: locknut.Locks, name: str) -> locknut.Lease:
    """A lock that nobody else has."""
    lease = locks.lock(name).acquire(blocking=False)
    assert lease is not None
    return lease


PATIENCE = 300.0
"""Seconds after which a waiter gives up: a test that fails may leave its locks held."""


class Waiters(ExitStack):
    """They are waited for at the end: by then the locks must be free."""

    def queue_up(self, locks: locknut.Locks, name: str) -> None:
        """Somebody else waits for this lock, until it is free."""

        def wait() -> None:
            with locknut.connect(locks.place, label="waiter") as other:
                other.lock(name).acquire(timeout=PATIENCE)

        thread = threading.Thread(target=wait)
        thread.start()
        self.callback(thread.join)
        until(lambda: locks.info(name).waiters, "the waiter is in the line")


@contextmanager
def deadlock_through(one: locknut.Locks, other: locknut.Locks) -> Iterator[None]:
    """Two threads, and two places: each holds "x" in one of them and waits for it in the other."""
    both = threading.Barrier(2)

    def nest(outer: str, inner: str, label: str) -> None:
        with (
            suppress(locknut.LeaseLost),
            locknut.connect(outer, label=label) as first,
            locknut.connect(inner, label=label) as second,
            first.lock("x"),
        ):
            both.wait(60)
            second.lock("x").acquire(timeout=120)

    orders = (one.place, other.place, "bank-1"), (other.place, one.place, "bank-2")
    threads = [threading.Thread(target=nest, args=each) for each in orders]
    for each in threads:
        each.start()
    try:
        until(lambda: one.info("x").waiters and other.info("x").waiters, "each waits for the other")
        yield
    finally:
        one.force_release("x")
        for each in threads:
            each.join()
