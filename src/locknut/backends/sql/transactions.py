"""Calls on a driver that takes one statement at a time: each call is a transaction of its own.

It is all that a database needs whose driver has cursors and `commit`: see `driver_colours` for how
it is asked in both colours, and `ConnectionPool` for who may use a connection.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from locknut.backends.sql.sql_table import Call, Rows
from locknut.drivers import connection_pool
from locknut.drivers.connection_pool import ConnectionPool

_PARAMETER: Final = re.compile(r":(\w+)")


class Session(connection_pool.Session, Protocol):
    """A connection, whose first statement begins a transaction. Each method takes no longer than
    `limit` seconds.
    """

    def execute(self, statement: str, values: Sequence[object], limit: float) -> Rows: ...

    def commit(self, limit: float) -> None: ...

    def rollback(self, limit: float) -> None: ...


S = TypeVar("S", bound=Session)


class Transactions(Generic[S]):
    """What a pool of connections is asked."""

    def __init__(self, pool: ConnectionPool[S]):
        self._pool = pool
        self.inside = pool.inside
        self.close = pool.close
        self.forked = pool.forked

    def ask(self, calls: Sequence[Call]) -> list[Rows]:
        """What was undone is tried again, and what was done is not: a second release would find
        nothing. Nobody has two rows locked at a time, so two batches cannot wait for each other.
        """
        answers: list[Rows] = []

        def work(session: S, left: Callable[[], float]) -> list[Rows]:
            for call in calls[len(answers) :]:
                answers.extend(self._in_transaction(session, [call], left, _whatever) or ())
            return answers

        return self._pool.with_session(work) if calls else []

    def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        """In one transaction, which is undone unless the answers are good."""

        def work(session: S, left: Callable[[], float]) -> bool:
            return self._in_transaction(session, calls, left, good) is not None

        return self._pool.with_session(work)

    def _in_transaction(
        self,
        session: S,
        calls: Sequence[Call],
        left: Callable[[], float],
        good: Callable[[list[Rows]], bool],
    ) -> list[Rows] | None:
        """The answers, once that is committed; None: it was undone."""
        try:
            answers = [_first_rows(session, call, left) for call in calls]
            fine = good(answers)
            (session.commit if fine else session.rollback)(left())
        except self._pool.errors as error:
            if self._pool.is_answer(error):  # else nobody uses this session again
                session.rollback(left())
            raise
        return answers if fine else None


def _whatever(_answers: list[Rows]) -> bool:
    return True


def _first_rows(session: Session, call: Call, left: Callable[[], float]) -> Rows:
    for statement in call.statements:
        rows = session.execute(*positional(statement, call.arguments), left())
        if rows:
            return rows
    return ()


def positional(statement: str, arguments: Mapping[str, object]) -> tuple[str, list[object]]:
    """With a mark in place of each argument, and what stands for the marks. Other names after a
    colon are variables of the statement's own.
    """
    values: list[object] = []

    def mark(found: re.Match[str]) -> str:
        if found[1] not in arguments:
            return found[0]
        values.append(arguments[found[1]])
        return "?"

    return _PARAMETER.sub(mark, statement), values
