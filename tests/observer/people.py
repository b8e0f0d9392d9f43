"""Those who hold locks and wait for them while somebody looks."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import locknut
from tests.servers.processes import until


def held(locks: locknut.Locks, name: str) -> locknut.Lease:
    """A lock that nobody else has."""
    lease = locks.lock(name).acquire(blocking=False)
    assert lease is not None
    return lease


class Waiters(ExitStack):
    """They are waited for at the end: by then the locks must be free."""

    def queue_up(self, locks: locknut.Locks, name: str) -> None:
        """Somebody else waits for this lock, until it is free."""

        def wait() -> None:
            with locknut.connect(locks.place, label="waiter") as other, other.lock(name):
                pass

        thread = threading.Thread(target=wait)
        thread.start()
        self.callback(thread.join)
        until(lambda: locks.info(name).waiters, "the waiter is in the line")
