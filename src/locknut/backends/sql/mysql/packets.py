"""Calls as packets of statements, with their arguments in them; in both colours."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from locknut.backends.sql.driver_colours import BlockingConnection, LoopConnection
from locknut.backends.sql.mysql.literals import bound
from locknut.backends.sql.sql_table import Call, Rows
from locknut.drivers.loop_workers import LoopWorkers
from locknut.drivers.mysql.session_pool import SessionPool


class Packets:
    """What a pool of connections is asked."""

    def __init__(self, pool: SessionPool):
        self._pool = pool
        self.inside = pool.inside
        self.close = pool.close
        self.forked = pool.forked

    def ask(self, calls: Sequence[Call]) -> list[Rows]:
        """Of each call, the rows of its first statement that has any."""
        if not calls:
            return []
        if len(calls) == 1 and len(calls[0].statements) == 1:
            call = calls[0]
            return self._pool.ask([bound(call.statements[0], call.arguments)])
        return _first_rows(self._pool.ask(_statements(calls)), calls)

    def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        return self._pool.ask_all(
            _statements(calls), lambda answers: good(_first_rows(answers, calls))
        )


def blocking(pool: SessionPool) -> BlockingConnection:
    return BlockingConnection(Packets(pool))


def for_loop(pool: SessionPool) -> LoopConnection:
    return LoopConnection(Packets(pool), workers(pool))


def workers(pool: SessionPool) -> LoopWorkers:
    """As many threads as there may be connections."""
    settings = pool.settings
    return LoopWorkers("mysql", settings.connections, settings.limit, pool.all_busy)


def _statements(calls: Sequence[Call]) -> list[str]:
    return [bound(each, call.arguments) for call in calls for each in call.statements]


def _first_rows(answers: list[Rows], calls: Sequence[Call]) -> list[Rows]:
    coming = iter(answers)
    found: list[Rows] = []
    for call in calls:
        own = [next(coming) for _ in call.statements]
        found.append(next((rows for rows in own if rows), ()))
    return found
