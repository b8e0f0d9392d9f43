"""PostgreSQL as a `Connection` of statements in SQL: for what is no lock, and in no hurry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from locknut.backends.sql.postgresql.table_questions import Questions
from locknut.backends.sql.sql_table import Call, Rows
from locknut.drivers.postgresql import exchange


class PlainConnection:
    """In the colour of its questions. What is asked together is one transaction."""

    def __init__(self, questions: Questions):
        self._questions = questions
        self.inside = questions.inside
        self.close = questions.close
        self.forked = questions.forked
        self.dropped = questions.dropped

    async def ask(self, calls: Sequence[Call]) -> list[Rows]:
        said = [
            exchange.Call(exchange.statement(text), call.arguments)
            for call in calls
            for text in call.statements
        ]
        return list(await self._questions.ask(said))

    async def ask_all(self, calls: Sequence[Call], good: Callable[[list[Rows]], bool]) -> bool:
        """Nothing is undone here but by an error."""
        return good(await self.ask(calls))
