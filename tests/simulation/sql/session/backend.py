"""The production backend of session mode on simulated sessions; each verb tells who acts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, ClassVar

from locknut.backends.sql.row_changes import RowChanges
from locknut.backends.sql.session.backend import CAPABILITIES, SessionBackend
from locknut.backends.sql.session.session_port import lock_of
from locknut.backends.sql.session.way_in import WayIn
from locknut.core.values import Answer, Claim, LockInfo, Notice, Renewal
from tests.simulation.checker.history import Kind
from tests.simulation.memory.node import bare
from tests.simulation.process import Process, SimRuntime, SimSignal
from tests.simulation.sql.backend import SimSql
from tests.simulation.sql.session.lock_sessions import (
    PLACE,
    SimClaimSessions,
    SimLockSessions,
)
from tests.simulation.sql.session.server import SessionDatabase
from tests.simulation.sql.statements import SimTable


class SimSession(SessionBackend):
    """One client's backend."""

    sessions_type: ClassVar[type[SimLockSessions]] = SimLockSessions
    capabilities = CAPABILITIES
    min_ttl = 0.001

    def __init__(self, process: Process, database: SessionDatabase) -> None:
        self._process = process
        self._database = database
        claims = database.claims.get(process.name)
        if claims is None:
            claims = database.claims[process.name] = SimClaimSessions(process)
            database.backends.append(self)
        sessions = self.sessions_type(process, database)
        table = SimTable(process, database)
        super().__init__("sql", table, sessions, claims, SimRuntime(process))

    def _by(self, *claims: Claim, **more: bool) -> SimSession:
        """The same backend, whose statements are these claims'."""
        twin = copy(self)
        table: Any = self._table
        twin._table = table.of(*(claim.id for claim in claims), **more)
        twin._rows = RowChanges(self.name, twin._table, self._bells, self._runtime)
        twin._way_in = WayIn(twin._rows, self._owners, self._runtime, twin._table, twin._obstacles)
        twin._way_in.client = self._client
        return twin

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        return await SessionBackend.attempt(self._by(claim), claim, patience)

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        lost = [claim for claim in claims if not self._has_its_lock(claim)]
        by, since = self._by(*claims, renews=True), self._database.generation
        answers = await SessionBackend.renew(by, claims)
        for claim, answer in zip(claims, answers, strict=True):
            if claim in lost and answer is Renewal.HELD and self._database.generation == since:
                self._process.tell(
                    Kind.LEFT, bare(claim.key), claim.id, note="extended without its session"
                )
        return answers

    def _has_its_lock(self, claim: Claim) -> bool:
        """As only the simulator can know. True where nobody asks for it, and where a server that
        started anew has given the same number, and nobody could tell.
        """
        known: Any = self._claims.get(claim.id)
        if known is None:
            return True
        session = known.session
        owner = self._database.owner(lock_of(PLACE, known.claim))
        return owner is not None and owner.number == session.number and not session.wire.hung_up

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        by, since = self._by(claim), self._database.generation
        released = await SessionBackend.release(by, claim, outcome_unknown=outcome_unknown)
        if not self._process.dead and self._database.generation == since:
            self._database.withdrawn(bare(claim.key), claim.id)
        return released

    async def downgrade(self, claim: Claim) -> bool:
        return await SessionBackend.downgrade(self._by(claim), claim)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return await SessionBackend.break_hold(self._by(breaks=True), key, raw, note)

    def remembers(self) -> Iterator[tuple[str, str, str]]:
        """What it should have forgotten by the end."""
        if not self._process.dead:
            for claim_id, used in self._claims._by_id.items():
                yield bare(used.claim.key), claim_id, "a claim with a session in the client"


class SimKeeper(SimSession):
    """The same for a keeper, which may stand still before or after a renewal."""

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        await self._stand_still()
        answers = await super().renew(claims)
        await self._stand_still()
        return answers

    async def _stand_still(self) -> None:
        world, name = self._process.world, self._process.name
        while world.now < self._database.hearts.get(name, 0.0) and self._database.disturbed:
            await SimSignal(self._process).wait(self._process.now() + 0.2)


class Mixed:
    """A process uses sessions, or leases; which, the seed decides."""

    capabilities = CAPABILITIES

    def __init__(self, by_session: type[SimSession]) -> None:
        self._by_session = by_session

    def __call__(self, process: Process, database: SessionDatabase) -> Any:
        modes = database.modes
        if process.name not in modes:
            modes[process.name] = process.world.random.choice(("session", "session", "lease"))
        kind: Any = self._by_session if modes[process.name] == "session" else SimSql
        return kind(process, database)
