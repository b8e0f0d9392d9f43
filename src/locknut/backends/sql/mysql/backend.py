"""The verbs on MySQL and MariaDB: those of all SQL engines, and who they hang up bells for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from locknut.backends.sql.backend import SqlBackend
from locknut.backends.sql.hold_checks import hold_check
from locknut.backends.sql.mysql.bell_chain import BellChain, ChainBells
from locknut.backends.sql.mysql.mysql_table import MySqlTable
from locknut.backends.sql.table_port import Seen
from locknut.core.ports import Runtime
from locknut.core.values import (
    Answer,
    Busy,
    Capability,
    Claim,
    Granted,
    HoldCheck,
    Mode,
    Notice,
    Renewal,
)


class MySqlBackend(SqlBackend):
    """A claim has a bell from the time it waits or holds until it does neither."""

    notices_hang_up = True

    def __init__(
        self,
        name: str,
        table: MySqlTable,
        chain: BellChain,
        runtime: Runtime,
        hung_up: Callable[[], bool],
    ):
        super().__init__(name, table, ChainBells(chain, runtime), runtime)
        self._confirm = table.confirm
        self._chain = chain
        self._hung_up = hung_up

    def hold_check(self, claim: Claim) -> HoldCheck:
        return hold_check(claim, self._confirm)

    def hung_up(self) -> bool:
        return self._hung_up()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Behind a proxy that shares connections nobody is woken, once that was noticed."""
        return self._declared if self._chain.wakes else self._declared - {Capability.WAKE_UP}

    @capabilities.setter
    def capabilities(self, declared: frozenset[Capability]) -> None:
        self._declared = declared

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await super().attempt(claim, patience)
        if type(answer) is Granted:
            self._entered((claim,))
        return answer

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        answer = await super().attempt_all(claims)
        if isinstance(answer, list):
            self._entered(claims)
        return answer

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        granted = await super().attach(detached, claim)
        if granted is not None:
            self._entered((claim,))
        return granted

    async def _ring_next(self, claim: Claim, seen: Seen) -> None:
        """If its bell hangs, whoever is next waits for that, and it is about to be freed."""
        if not self._chain.hangs(claim.id):
            await super()._ring_next(claim, seen)

    def _entered(self, claims: Iterable[Claim]) -> None:
        for claim in claims:
            alone = claim.mode is Mode.EXCLUSIVE and claim.owner is None
            self._chain.entered(claim.id, alone=alone)

    async def renew(self, claims: Sequence[Claim]) -> list[Notice]:
        answers = await super().renew(claims)
        for claim, answer in zip(claims, answers, strict=True):
            if answer is not Renewal.HELD and answer is not Renewal.UNKNOWN:
                self._chain.left(claim.id)
        return answers

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        try:
            return await super().release(claim, outcome_unknown=outcome_unknown)
        finally:
            self._chain.left(claim.id)

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        try:
            return await super().release_all(claims, outcome_unknown=outcome_unknown)
        finally:
            for claim in claims:
                self._chain.left(claim.id)

    async def downgrade(self, claim: Claim) -> bool:
        kept = await super().downgrade(claim)
        self._chain.left(claim.id)  # readers who wait behind it may come in
        return kept
