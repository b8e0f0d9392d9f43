"""The SQL backend on PostgreSQL: what only this database has."""

from __future__ import annotations

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.hold_checks import hold_check
from locknut.backends.sql.postgresql.doorbells import Doorbells
from locknut.backends.sql.postgresql.lock_table import LockTable
from locknut.backends.sql.postgresql.table_questions import Line, Questions
from locknut.backends.sql.statements import load
from locknut.core.findings import Check
from locknut.core.ports import Runtime
from locknut.core.values import Answer, Capability, Claim, HoldCheck
from locknut.drivers.postgresql.primary import Primary
from locknut.drivers.postgresql.settings import NAME


class PostgresBackend(SqlBackend):
    """One client's, in the colour of its line."""

    notices_hang_up = True

    def __init__(self, line: Line, table: str, runtime: Runtime):
        statements = load(NAME, table)
        questions = Questions(line, table, statements.create)
        self._questions = questions
        self._confirm = statements.confirm[0]
        self._doorbells = Doorbells(questions, line.pool, runtime)
        super().__init__(NAME, LockTable(questions, statements, table), self._doorbells, runtime)
        self.hung_up = questions.hung_up  # type: ignore[method-assign]
        self.checks = lambda prefix: examined(questions, line.pool.primary, table)  # type: ignore[method-assign]  # noqa: ARG005 -- one table for all
        line.pool.primary.follow(self._changed)

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        if not claim.waits:
            return await super().attempt(claim, patience)
        self._doorbells.asks(claim.id)
        try:
            return await super().attempt(claim, patience)
        finally:
            self._doorbells.was_answered(claim.id)

    def hold_check(self, claim: Claim) -> HoldCheck:
        return hold_check(claim, self._confirm)

    def _changed(self) -> None:
        """A proxy that lends sessions was found: nobody can be woken through it."""
        if not self._bells.wakes:
            self.capabilities -= {Capability.WAKE_UP}
            self._waiting.wakes = False
            self._waiting.ring_all()


def examined(questions: Questions, primary: Primary, table: str) -> list[Check]:
    """What `doctor` looks at, in either mode."""
    from locknut.backends.sql.postgresql import checkup  # few programs need it

    return checkup.checks(questions, primary, table)
