"""A transaction that is committed only while a lock is held, which is kept in the same database.

Two questions to the row of the lock. The first, as the transaction begins: does it see the hold? If
it does not, its snapshot is older than the hold, and what it reads may be out of date. The second,
when the work is done: is it still held? That one locks the row, so that nobody gets the lock before
the commit. In between the row is free, because the hold has to be renewed.
"""

from __future__ import annotations

from typing import Any

from locknut.core.holding import LeaseCore
from locknut.errors import BackendError, ConfigurationError, LeaseLost
from locknut.guards.sql.dialects import Asking
from locknut.guards.sql.guard import TABLE
from locknut.guards.sql.own_connection import OwnConnection


class HeldTransaction:
    """What is asked in a program's transaction about one of its leases."""

    def __init__(
        self,
        connection: Any,
        lease: LeaseCore,
        dialect: str | None,
        paramstyle: str | None,
        *,
        awaits: bool,
    ) -> None:
        if not isinstance(lease, LeaseCore):
            raise ConfigurationError(f"a transaction is bound to one lease, not to {lease!r}")
        self._lease = lease
        self._check = lease._client.backend.hold_check(lease._hold.claim)
        self.own = OwnConnection(connection, TABLE, dialect, paramstyle)
        self.own.check_colour(awaits=awaits)
        name = self._check.name
        self.values = {"name": name, "hexed": name.hex()}

    def begins(self) -> Asking[None]:
        """Before the first read."""
        self._lease.check()
        yield from self.own.dialect.begun()
        rows = yield self._check.look
        if not self._check.holds(rows):
            self._lease.check()
            raise BackendError(
                "this transaction does not see the hold: it had begun to read before the lock was "
                "acquired, or its database is not the one that the lock is in; roll back, and "
                "begin it while the lock is held",
                key=self._lease.name,
                backend=self._lease.backend,
            )

    def ends(self) -> Asking[None]:
        """After the last write: until the commit nobody else gets the lock."""
        rows = yield self._check.keep
        self._lease.check()
        if not self._check.holds(rows):
            raise LeaseLost(
                "the hold was lost during the transaction: somebody else may have had the lock; "
                "roll back, and start over",
                key=self._lease.name,
                backend=self._lease.backend,
            )
