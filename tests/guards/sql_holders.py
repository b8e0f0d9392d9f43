"""A holder with a database connection of its own, the same for every driver and both colours.

It enters the guard, reads and writes one amount, and ends its transaction. One that awaits has a
loop of its own, so that a test can drive it like the others.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, Self

from locknut.guards.sql import SqlGuard, aio

NAME = "stock:7"
ROW = "SELECT amount FROM stock WHERE id = 7"


class Holder:
    """One who has a connection and may have, or have had, the lock."""

    def __init__(self, connect: Any, **options: Any) -> None:
        self._loop = asyncio.Runner()
        self.connection = self.done(connect())
        awaits = inspect.iscoroutinefunction(self.connection.commit)
        self.guard: Any = (aio.SqlGuard if awaits else SqlGuard)(self.connection, NAME, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enter(self, fence: int) -> Self:
        self.done(self.guard.enter(fence))
        return self

    def newest(self) -> int | None:
        found: int | None = self.done(self.guard.newest())
        return found

    def read(self) -> int:
        ((amount,),) = self.ask(ROW)
        return int(amount)

    def write(self, amount: int) -> None:
        self.ask(f"UPDATE stock SET amount = {amount} WHERE id = 7")

    def ask(self, statement: str) -> list[tuple[Any, ...]]:
        connection = self.connection
        if hasattr(connection, "get_bind"):
            connection = self.done(connection.connection())
        if hasattr(connection, "exec_driver_sql"):
            result = self.done(connection.exec_driver_sql(statement))
            return [*map(tuple, result.all())] if result.returns_rows else []
        cursor = self.done(connection.cursor())
        try:
            self.done(cursor.execute(statement))
            found = self.done(cursor.fetchall()) if cursor.description else []
            return [tuple(row) for row in found]
        finally:
            self.done(cursor.close())

    def commit(self) -> None:
        self.done(self.connection.commit())

    def rollback(self) -> None:
        self.done(self.connection.rollback())

    def close(self) -> None:
        """A transaction that is open ends here, and nothing of it stays."""
        close = getattr(self.connection, "ensure_closed", self.connection.close)  # aiomysql's
        self.done(close())
        self._loop.close()

    def done(self, answer: Any) -> Any:
        return self._loop.run(_awaited(answer)) if inspect.isawaitable(answer) else answer


async def _awaited(answer: Any) -> Any:
    return await answer
