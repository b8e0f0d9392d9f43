"""The guard for data in an SQL database: a transaction with an old fence is refused as it begins.

    with locks.lock("stock:7") as lease, connection:
        SqlGuard(connection, "stock:7").enter(lease)
        ...

`connection` is the program's own: of a driver (psycopg, PyMySQL, sqlite3, or another of DB-API 2),
or a Connection or Session of SQLAlchemy. What awaits has the same in `locknut.guards.sql.aio`.
Errors of the database are the driver's own.

Where the lock lives in the same database, `while_held` needs no table of its own:

    with locks.lock("stock:7") as lease, connection.transaction(), while_held(connection, lease):
        ...
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from locknut.core.holding import LeaseCore
from locknut.guards.fences import Fenced, fence_of
from locknut.guards.sql.dialects import Asking, Row, T
from locknut.guards.sql.guard import TABLE, SqlGuardBase
from locknut.guards.sql.held_transaction import HeldTransaction
from locknut.guards.sql.own_connection import OwnConnection, plain

__all__ = ["SqlGuard", "create_table", "while_held"]


class SqlGuard(SqlGuardBase):
    """Guards what belongs to one name, for one holder at a time: enter it in each transaction.

    The newest fence is kept in a table beside the data, for ever. Everybody who changes the data
    must come through a guard; a writer that does not is not refused.
    """

    _awaits = False

    def newest(self) -> int | None:
        """The newest fence that entered, by anybody; None if none did."""
        return answered(self._own, self._looking(), self._values())

    def enter(self, lease: Fenced | int) -> Self:
        """Come in, before the first read of the transaction; an older fence raises `StaleFence`.

        Waits for a transaction that has entered and is still open. Once this one is committed,
        everybody with an older fence is refused.
        """
        fence = fence_of(lease)
        answered(self._own, self._entering(fence), self._values(fence))
        return self


@contextmanager
def while_held(
    connection: Any,
    lease: LeaseCore,
    *,
    dialect: str | None = None,
    paramstyle: str | None = None,
) -> Iterator[None]:
    """Inside a transaction: leaving it raises `LeaseLost`, unless the lock is still held and stays
    so until the commit. The lock must live in the same database, on PostgreSQL, MySQL or MariaDB.
    """
    held = HeldTransaction(connection, lease, dialect, paramstyle, awaits=False)
    answered(held.own, held.begins(), held.values)
    yield
    answered(held.own, held.ends(), held.values)


def create_table(
    connection: Any,
    *,
    table: str = TABLE,
    dialect: str | None = None,
    paramstyle: str | None = None,
) -> None:
    """Make the table of the guards, if it is not there. Committing it is yours."""
    own = OwnConnection(connection, table, dialect, paramstyle)
    own.check_colour(awaits=False)
    ask(own, own.dialect.table, {})


def answered(own: OwnConnection, asking: Asking[T], values: dict[str, Any]) -> T:
    """What becomes of the questions, each asked on the program's connection."""
    try:
        text = next(asking)
        while True:
            try:
                rows = ask(own, text, values)
            except Exception as error:  # noqa: BLE001 -- it goes on from where it was asked
                text = asking.throw(error)
            else:
                text = asking.send(rows)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]


def ask(own: OwnConnection, text: str, values: dict[str, Any]) -> list[Row]:
    """One statement on the program's connection, and its rows."""
    statement = own.statement(text, values)
    if own.is_sqlalchemy:
        connection = own.given.connection() if own.is_session else own.given
        result = connection.exec_driver_sql(*statement)
        return plain(result.all()) if result.returns_rows else []
    cursor = own.with_plain_rows(own.cursor())
    try:
        cursor.execute(*statement)
        return plain(cursor.fetchall()) if cursor.description else []
    finally:
        if cursor is not own.given:
            cursor.close()
