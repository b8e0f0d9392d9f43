"""When a lock ends that belongs to a session's transaction: after its commit or its rollback.

Both colours meet here: an AsyncSession has a Session inside, which has the events.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, SessionTransaction

from locknut import ConfigurationError, Lease, LocknutError, Semaphore
from locknut.aio import Lease as AsyncLease
from locknut.aio import Semaphore as AsyncSemaphore
from locknut.guards.sql import SqlGuard

_log = logging.getLogger("locknut")
_KEY = "locknut.holds"
"""Where a session keeps what belongs to it (`Session.info`)."""


AnyLease = Lease | AsyncLease


class SessionHolds:
    """The leases that end with the transaction which a session is in."""

    def __init__(self, session: Session) -> None:
        self._held: list[tuple[AnyLease, Callable[[], None]]] = []
        # Once, and for good: a listener that removes itself breaks the round that has called it.
        event.listen(session, "before_commit", self._before_commit)
        event.listen(session, "after_transaction_end", self._ended)

    def add(self, lease: AnyLease, release: Callable[[], None]) -> None:
        self._held.append((lease, release))

    def _before_commit(self, _: Session) -> None:
        for lease, _release in self._held:
            lease.check()

    def _ended(self, _: Session, transaction: SessionTransaction) -> None:
        if transaction.parent is not None:
            return  # a savepoint: what was done under the lock is not committed yet
        held, self._held = self._held, []
        interrupted: BaseException | None = None
        for lease, release in reversed(held):
            try:
                release()
            except LocknutError as error:
                # The transaction has ended: an error here would look as if it had failed.
                _log.warning("lock %r after a transaction: %s", lease.name, error)
            except BaseException as error:  # noqa: BLE001  # a cancelled task: the others end first
                interrupted = error
        if interrupted is not None:
            raise interrupted


def refuse(session: Session, lock: object) -> None:
    """Raise if the end of this session's transaction would not be the end of the work."""
    if isinstance(lock, Semaphore | AsyncSemaphore):
        raise ConfigurationError(
            "a semaphore cannot be bound to a transaction, because it is not re-entrant; take it "
            "around the transaction, in a `with`"
        )
    if isinstance(session.bind, Connection) and session.bind.in_transaction():
        raise ConfigurationError(
            "this session has joined a transaction of its Connection, which ends after the "
            "session's own; take the lock around that transaction, in a `with`"
        )


def bind(session: Session, lease: AnyLease, release: Callable[[], None]) -> None:
    """From now on the end of the transaction releases the lease."""
    if not session.in_transaction():
        session.begin()
    holds = session.info.get(_KEY)
    if holds is None:
        holds = session.info[_KEY] = SessionHolds(session)
    holds.add(lease, release)


@contextmanager
def guard_transactions(
    session: Session | AsyncSession, lease: AnyLease, *, name: str | None = None
) -> Iterator[None]:
    """Inside, every transaction of this session enters the guard before its first read.

    A transaction with an older fence than one that was committed gets `StaleFence` as it begins,
    one whose lock was lost gets `LeaseLost` instead of its commit. `name` is what is guarded: the
    name of the lock, if it is not given. The table is made by `locknut.guards.sql.create_table`.
    """
    own = session.sync_session if isinstance(session, AsyncSession) else session
    if own.in_transaction():
        raise ConfigurationError(
            "this session is in a transaction, which may have read already: guard_transactions() "
            "comes first, and the transaction begins inside"
        )

    def begun(_: Session, transaction: SessionTransaction, connection: Connection) -> None:
        if not transaction.nested:
            SqlGuard(connection, name or lease.name).enter(lease)

    def before_commit(_: Session) -> None:
        lease.check()

    event.listen(own, "after_begin", begun)
    event.listen(own, "before_commit", before_commit)
    try:
        yield
    finally:
        event.remove(own, "after_begin", begun)
        event.remove(own, "before_commit", before_commit)
