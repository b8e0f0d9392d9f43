"""Tables with a bug where several hold: what statements that let one more in get wrong."""

from __future__ import annotations

from locknut.backends.sql.table_port import Row, Take
from tests.simulation.sql.database import PrunedSoon


class EntersBesideAnybody(PrunedSoon):
    """A reader does not look how the others hold."""

    def _may_enter(self, row: Row, wanted: Take, now: int) -> bool:
        if wanted.mode == "s":
            row = row._replace(company="s")
        return super()._may_enter(row, wanted, now)


class OwnersAreNotTold(PrunedSoon):
    """Who is in company has let everybody in: the owner is not compared."""

    def _may_enter(self, row: Row, wanted: Take, now: int) -> bool:
        if wanted.owner:
            row = row._replace(company=f"e{wanted.owner}")
        return super()._may_enter(row, wanted, now)


class OneTooMany(PrunedSoon):
    """One permit more than there are."""

    def _may_enter(self, row: Row, wanted: Take, now: int) -> bool:
        return super()._may_enter(row, wanted._replace(permits=wanted.permits + 1), now)


class ForgetsCompany(PrunedSoon):
    """Who enters beside others writes itself over them."""

    def _entered(self, row: Row, wanted: Take, now: int) -> Row:
        entered = super()._entered(row, wanted, now)
        return entered._replace(holders=entered.holders[entered.holders.rindex(wanted.claim_id) :])
