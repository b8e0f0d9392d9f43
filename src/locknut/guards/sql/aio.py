"""The guard for data in an SQL database, for asyncio: `locknut.guards.sql` with what awaits.

    async with locks.lock("stock:7") as lease, connection.transaction():
        await SqlGuard(connection, "stock:7").enter(lease)
        ...

`connection` is an AsyncConnection of psycopg, an AsyncConnection or AsyncSession of SQLAlchemy, or
one of aiosqlite or aiomysql. Roll back a transaction in which `enter` was cancelled.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from locknut.core.holding import LeaseCore
from locknut.guards.fences import Fenced, fence_of
from locknut.guards.sql.dialects import Asking, Row, T
from locknut.guards.sql.guard import TABLE, SqlGuardBase
from locknut.guards.sql.held_transaction import HeldTransaction
from locknut.guards.sql.own_connection import OwnConnection, plain

__all__ = ["SqlGuard", "create_table", "while_held"]


class SqlGuard(SqlGuardBase):
    """Guards what belongs to one name, for one holder at a time: enter it in each transaction."""

    _awaits = True

    async def newest(self) -> int | None:
        """The newest fence that entered, by anybody; None if none did."""
        return await answered(self._own, self._looking(), self._values())

    async def enter(self, lease: Fenced | int) -> Self:
        """Come in, before the first read of the transaction; an older fence raises `StaleFence`."""
        fence = fence_of(lease)
        await answered(self._own, self._entering(fence), self._values(fence))
        return self


@asynccontextmanager
async def while_held(
    connection: Any,
    lease: LeaseCore,
    *,
    dialect: str | None = None,
    paramstyle: str | None = None,
) -> AsyncIterator[None]:
    """Inside a transaction: leaving it raises `LeaseLost`, unless the lock is still held and stays
    so until the commit.
    """
    held = HeldTransaction(connection, lease, dialect, paramstyle, awaits=True)
    await answered(held.own, held.begins(), held.values)
    yield
    await answered(held.own, held.ends(), held.values)


async def create_table(
    connection: Any,
    *,
    table: str = TABLE,
    dialect: str | None = None,
    paramstyle: str | None = None,
) -> None:
    """Make the table of the guards, if it is not there. Committing it is yours."""
    own = OwnConnection(connection, table, dialect, paramstyle)
    own.check_colour(awaits=True)
    await ask(own, own.dialect.table, {})


async def answered(own: OwnConnection, asking: Asking[T], values: dict[str, Any]) -> T:
    """What becomes of the questions, each asked on the program's connection."""
    try:
        text = next(asking)
        while True:
            try:
                rows = await ask(own, text, values)
            except Exception as error:  # noqa: BLE001 -- it goes on from where it was asked
                text = asking.throw(error)
            else:
                text = asking.send(rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


async def ask(own: OwnConnection, text: str, values: dict[str, Any]) -> list[Row]:
    """One statement on the program's connection, and its rows."""
    statement = own.statement(text, values)
    if own.is_sqlalchemy:
        connection = await own.given.connection() if own.is_session else own.given
        result = await connection.exec_driver_sql(*statement)
        return plain(result.all()) if result.returns_rows else []
    cursor = own.cursor()
    if inspect.isawaitable(cursor):  # psycopg gives one at once
        cursor = await cursor
    cursor = own.with_plain_rows(cursor)
    try:
        await cursor.execute(*statement)
        return plain(await cursor.fetchall()) if cursor.description else []
    finally:
        if cursor is not own.given:
            await cursor.close()
