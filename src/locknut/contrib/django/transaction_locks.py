"""When a lock ends that belongs to a transaction of Django: after its commit or its rollback.

Released before the commit, a lock would let the next one read what is about to change. So the lock
goes around the transaction (`atomic_lock`), or waits for its end (`lock_transaction`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction

from locknut import ConfigurationError, Lease, LocknutError, Locks
from locknut.contrib.django.configured_locks import locks as configured
from locknut.guards.sql import SqlGuard

_log = logging.getLogger("locknut")
Duration = float | str | None


@contextmanager
def atomic_lock(
    name: str,
    *,
    timeout: Duration = None,
    ttl: Duration = None,
    using: str | None = None,
    guard: bool = False,
    locks: Locks | None = None,
) -> Iterator[Lease]:
    """Hold a lock around a transaction of its own: what is inside is committed, then unlocked.

    If the lock was lost, `LeaseLost` is raised and nothing is committed. With `guard` the fence is
    checked as well (`StaleFence`). Inside of another transaction it raises RuntimeError, as
    `atomic(durable=True)` does: the work would be committed after the lock has gone.
    """
    lock = (locks or configured()).lock(name, ttl, timeout)
    with lock as lease, transaction.atomic(using=using, durable=True):
        if guard:
            SqlGuard(transaction.get_connection(using), name).enter(lease)
        yield lease
        lease.check()


def lock_transaction(
    name: str,
    *,
    timeout: Duration = None,
    ttl: Duration = None,
    using: str | None = None,
    guard: bool = False,
    locks: Locks | None = None,
) -> Lease:
    """Acquire a lock inside of `atomic()`, and hold it until the transaction has ended.

    It is released when the outermost `atomic()` has committed or rolled back, or when a savepoint
    that is older than the lock was rolled back.
    """
    connection = transaction.get_connection(using)
    if not connection.in_atomic_block:
        raise ConfigurationError(
            "there is no transaction here that the lock could last for; use it inside of "
            "transaction.atomic(), or use atomic_lock()",
            key=name,
        )
    lock = (locks or configured()).lock(name, ttl, timeout)
    with lock as lease:  # raises AcquireTimeout, which says who has it
        lock.acquire()  # once more, so that it stays
    connection.on_commit(_End(lease), robust=True)
    if guard:
        SqlGuard(connection, name).enter(lease)
    return lease


class _End:
    """Called after the commit. After a rollback Django only drops it, and that is noticed."""

    def __init__(self, lease: Lease) -> None:
        self._lease: Lease | None = lease

    def __call__(self) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            lease.release()
        except LocknutError as error:
            # The transaction has ended: an error here would look as if it had failed.
            _log.warning("lock %r after a transaction: %s", lease.name, error)

    __del__ = __call__
