"""The blocking colour: a caller's own thread waits for the server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from locknut.backends.sql.mysql.literals import bound
from locknut.backends.sql.sql_table import Call, Rows
from locknut.drivers.mysql.session_pool import SessionPool

T = TypeVar("T")


class BlockingConnection:
    """A `Connection` whose commands block."""

    def __init__(self, pool: SessionPool):
        self.pool = pool
        self.inside = pool.inside
        self.forked = pool.forked

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        return ask(self.pool, calls)

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        return ask_all(self.pool, calls, good)

    async def do(self, work: Callable[[], T]) -> T:
        return work()

    async def close(self) -> None:
        self.pool.close()

    def dropped(self) -> None:
        self.pool.close()


def ask(pool: SessionPool, calls: Sequence[Call]) -> list[Rows]:
    """Of each call, the rows of its first statement that has any."""
    if not calls:
        return []
    if len(calls) == 1 and len(calls[0].statements) == 1:
        call = calls[0]
        return pool.ask([bound(call.statements[0], call.arguments)])
    return _first_rows(pool.ask(_statements(calls)), calls)


def ask_all(pool: SessionPool, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
    return pool.ask_all(_statements(calls), lambda answers: good(_first_rows(answers, calls)))


def _statements(calls: Sequence[Call]) -> list[str]:
    return [bound(each, call.arguments) for call in calls for each in call.statements]


def _first_rows(answers: list[Rows], calls: Sequence[Call]) -> list[Rows]:
    coming = iter(answers)
    found: list[Rows] = []
    for call in calls:
        own = [next(coming) for _ in call.statements]
        found.append(next((rows for rows in own if rows), ()))
    return found
