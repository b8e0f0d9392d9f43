"""The production backend and recipe on a simulated table; each verb tells who acts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, ClassVar

from locknut.backends.sql.backend import CAPABILITIES, SqlBackend
from locknut.backends.sql.row_changes import RowChanges
from locknut.core.values import Answer, Busy, Claim, Granted, LockInfo, Notice
from tests.simulation.memory.node import bare
from tests.simulation.process import Process, SimRuntime
from tests.simulation.sql.bells import NoBells, SimBells
from tests.simulation.sql.database import Database
from tests.simulation.sql.statements import SimTable


class SimSql(SqlBackend):
    """One client's backend."""

    table_type: ClassVar[type[SimTable]] = SimTable
    bells_type: ClassVar[Any] = SimBells
    capabilities = CAPABILITIES
    min_ttl = 0.001

    def __init__(self, process: Process, database: Database) -> None:
        self._process = process
        self._database = database
        table = self.table_type(process, database)
        super().__init__("sql", table, self.bells_type(process, database), SimRuntime(process))
        database.backends.append(self)

    def _by(self, *claims: Claim, **more: bool) -> SimSql:
        """The same backend, whose statements are these claims'."""
        twin = copy(self)
        table: Any = self._table
        twin._table = table.of(*(claim.id for claim in claims), **more)
        twin._rows = RowChanges(self.name, twin._table, self._bells, self._runtime)
        return twin

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        return await SqlBackend.attempt(self._by(claim), claim, patience)

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        in_order = sorted(claims, key=lambda claim: claim.key)
        return await SqlBackend.attempt_all(self._by(*in_order), claims)

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        return await SqlBackend.renew(self._by(*claims, renews=True), claims)

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        by, since = self._by(claim), self._database.generation
        released = await SqlBackend.release(by, claim, outcome_unknown=outcome_unknown)
        self._withdrawn(claim, since)
        return released

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        by, since = self._by(*claims), self._database.generation
        released = await SqlBackend.release_all(by, claims, outcome_unknown=outcome_unknown)
        for claim in claims:
            self._withdrawn(claim, since)
        return released

    async def downgrade(self, claim: Claim) -> bool:
        return await SqlBackend.downgrade(self._by(claim), claim)

    async def detach(self, claim: Claim, ttl: float) -> bool:
        return await SqlBackend.detach(self._by(claim), claim, ttl)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        return await SqlBackend.attach(self._by(claim, detached), detached, claim)

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await SqlBackend.undo_attach(self._by(claim, detached), claim, detached)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return await SqlBackend.break_hold(self._by(breaks=True), key, raw, note)

    def _withdrawn(self, claim: Claim, since: int) -> None:
        """The client heard it: from now on this claim must not hold, wait or be granted. A server
        that was promoted meanwhile may not know of it.
        """
        if not self._process.dead and self._database.generation == since:
            self._database.withdrawn(bare(claim.key), claim.id)

    def remembers(self) -> Iterator[tuple[str, str, str]]:
        """What it should have forgotten by the end."""
        bells: Any = self._bells
        if not self._process.dead:
            for claim_id, waiting in self._waiting.by_id.items():
                yield bare(waiting.claim.key), claim_id, "a waiting claim in the client"
            for claim_id in bells.expected():
                yield "", claim_id, "a claim that is expected to be rung"


class SimPaced(SimSql):
    """Without notifications."""

    bells_type = NoBells


class Either:
    """A process has notifications, or none; which, the seed decides."""

    capabilities = CAPABILITIES

    def __call__(self, process: Process, database: Database) -> SimSql:
        return process.world.random.choice((SimSql, SimSql, SimPaced))(process, database)
