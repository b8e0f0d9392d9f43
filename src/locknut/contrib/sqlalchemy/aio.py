"""SQLAlchemy with asyncio: `locknut.contrib.sqlalchemy` for an AsyncSession.

async with AsyncSession(engine) as session, session.begin():
    await lock_transaction(session, locks.lock("stock:7", timeout=5))
    ...
"""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.util import await_only

from locknut.aio import Lease, Lock
from locknut.contrib.sqlalchemy.session_holds import bind, guard_transactions, refuse
from locknut.guards.sql.aio import SqlGuard

__all__ = ["guard_transactions", "lock_transaction"]


async def lock_transaction(
    session: AsyncSession | async_scoped_session[AsyncSession], lock: Lock, *, guard: bool = False
) -> Lease:
    """Acquire the lock, and hold it until the session's transaction has ended."""
    own = session() if isinstance(session, async_scoped_session) else session
    refuse(own.sync_session, lock)
    async with lock as lease:  # raises AcquireTimeout, which says who has it
        await lock.acquire()  # once more, so that it stays
    # A session ends its transaction inside of a greenlet, which may await.
    bind(own.sync_session, lease, lambda: await_only(lease.release()))
    if guard:
        await SqlGuard(own, lock.name).enter(lease)
    return lease
