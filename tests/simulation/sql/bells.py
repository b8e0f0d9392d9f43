"""Notifications: a connection that listens, is cut, and listens again; and none at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from locknut.errors import BackendUnavailable
from tests.simulation.process import SimRuntime, SimSignal
from tests.simulation.sql.statements import SimTable

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.sql.database import Database

REMEMBERED = 5.0
"""Seconds for which a ring is kept for a claim that is not yet expected."""
AGAIN = 0.2
"""Seconds after which a listener that could not connect tries again."""


class SimBells:
    """`Bells` of the port, as LISTEN and NOTIFY have it."""

    wakes = True

    def __init__(self, process: Process, database: Database) -> None:
        self.client = SimRuntime(process).new_id()
        self._process = process
        self._database = database
        self._table = SimTable(process, database)
        self._listens = False
        self._expected: dict[str, Callable[[], None]] = {}
        self._recent: dict[str, float] = {}

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:
        known = claim_id in self._expected
        self._expected[claim_id] = ring
        if self._recent.pop(claim_id, 0.0) > self._process.now() - REMEMBERED:
            ring()
        if not self._listens:
            self._listens = True
            self._process.spawn(self._listen(), "left listening")
        elif not known and self in self._database.bells:
            ring()  # listening has begun: look once more

    def forget(self, claim_id: str) -> None:
        self._expected.pop(claim_id, None)

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        claim_ids = tuple(claim_id for _, claim_id in waiting)
        await self._table.send(lambda _, __: self._database.ring(claim_ids))

    def heard(self, claim_ids: Sequence[str]) -> None:
        self._process.soon(lambda: self._heard(claim_ids))

    def cut(self) -> None:
        self._process.soon(self._cut)

    def expected(self) -> list[str]:
        return list(self._expected)

    async def close(self) -> None:
        """The simulator ends with the process."""

    def forked(self) -> None:
        """No simulated process forks."""

    def dropped(self) -> None:
        """The simulator ends with the process."""

    def _heard(self, claim_ids: Sequence[str]) -> None:
        now = self._process.now()
        self._recent = {who: t for who, t in self._recent.items() if t > now - REMEMBERED}
        for claim_id in claim_ids:
            ring = self._expected.get(claim_id)
            if ring is not None:
                ring()
            else:
                self._recent[claim_id] = now

    def _cut(self) -> None:
        self._listens = bool(self._expected)
        if self._listens:
            self._process.spawn(self._listen(), "left listening")

    async def _listen(self) -> None:
        """Until it listens; whoever is expected may have missed a ring before that."""
        while self._listens and not self._process.dead:
            try:
                await self._table.send(lambda _, __: self._begun())
            except BackendUnavailable:
                await SimSignal(self._process).wait(self._process.now() + AGAIN)
            else:
                for ring in list(self._expected.values()):
                    ring()
                return

    def _begun(self) -> None:
        if self not in self._database.bells and not self._process.dead:
            self._database.bells.append(self)


class NoBells:
    """As behind a proxy that pools connections: nobody is rung, and waits are paced."""

    wakes = False

    def __init__(self, process: Process, database: Database) -> None:
        self.client = SimRuntime(process).new_id()

    def expect(self, key: bytes, claim_id: str, behind: str, ring: Callable[[], None]) -> None:
        """It looks by itself."""

    def forget(self, claim_id: str) -> None:
        """Nothing was remembered."""

    async def ring(self, waiting: Sequence[tuple[str, str]]) -> None:
        """They look by themselves."""

    def expected(self) -> list[str]:
        return []

    async def close(self) -> None:
        """The simulator ends with the process."""

    def forked(self) -> None:
        """No simulated process forks."""

    def dropped(self) -> None:
        """The simulator ends with the process."""
