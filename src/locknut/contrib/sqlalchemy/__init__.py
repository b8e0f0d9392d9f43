"""SQLAlchemy: a lock that lasts as long as a transaction, and transactions that a fence guards.

    with Session(engine) as session, session.begin():
        lock_transaction(session, locks.lock("stock:7", timeout=5))
        ...                             # committed or rolled back, and only then unlocked

The lock is released after the outermost transaction of the session has ended, never before. If it
was lost in the meantime, the commit raises `LeaseLost` and nothing is committed. AsyncSession has
the same in `locknut.contrib.sqlalchemy.aio`. It needs the extra `sqlalchemy`.
"""

from __future__ import annotations

from sqlalchemy.orm import Session, scoped_session

from locknut import Lease, Lock
from locknut.contrib.sqlalchemy.session_holds import bind, guard_transactions, refuse
from locknut.guards.sql import SqlGuard

__all__ = ["guard_transactions", "lock_transaction"]


def lock_transaction(
    session: Session | scoped_session[Session], lock: Lock, *, guard: bool = False
) -> Lease:
    """Acquire the lock, and hold it until the session's transaction has ended.

    A transaction is begun if there is none. With `guard`, the fence is checked in it as well, and
    an older one raises `StaleFence`: see `locknut.guards.sql`.
    """
    own = session() if isinstance(session, scoped_session) else session
    refuse(own, lock)
    with lock as lease:  # raises AcquireTimeout, which says who has it
        lock.acquire()  # once more, so that it stays
    bind(own, lease, lease.release)
    if guard:
        SqlGuard(own, lock.name).enter(lease)
    return lease
