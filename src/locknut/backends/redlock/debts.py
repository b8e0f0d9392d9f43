"""What nodes are owed: claims that were released, and may still be on a node that had no answer.

A release is over when a majority has done it. A node that could not be asked, or whose connection
broke before it answered, may keep its vote until the ttl has run out, and as long it is one node
less for whoever wants the lock next. So such a claim is a debt of the node: the next connection to
it that anybody makes begins with taking it back. If nobody has anything to ask the node, the keeper
does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from locknut.backends.redlock import ballots
from locknut.backends.redlock.ballots import Round
from locknut.backends.redlock.questions import Packed, Question, Route
from locknut.backends.redlock.rounds import PATIENCE, RoundsBackend
from locknut.core.values import Claim, Notice, Renewal
from locknut.drivers.redis import wire
from locknut.drivers.redis.lua_scripts import Script

_PING: Final[Packed] = Script(b"", b""), wire.pack(b"PING")


def _ping(_route: Route) -> Packed:
    return _PING


class RepayingBackend(RoundsBackend):
    """Adds how debts are repaid."""

    @property
    def settles_at(self) -> float:
        return min(node.settles_at for node in self._set.nodes)

    async def settle(self) -> None:
        """Ask each of them something: what it is owed goes first, by the same connection."""
        now = self.now()
        asked = [node for node in self._set.nodes if now >= node.settles_at]
        for node in asked:
            node.settle_later()
        answers = Round([node.at for node in asked], len(self._all))
        heard = self._hears(answers, ballots.answered_by_all, plain=True, guarded=False)
        until: Callable[[], float] = lambda: now + min(self.limit, PATIENCE)  # noqa: E731
        await self._ask([Question(node.at, _ping) for node in asked], heard, until)

    def repay(self, node: int, claim: Claim) -> Question:
        """Take a claim back on a node that may have it, or may still get it."""
        return Question(node, self._recipe.withdraw(claim, outcome_unknown=True), owed=claim)

    def listen(self, on_notice: Callable[[str | None, Notice], Any]) -> None:
        """Nothing tells of a loss: it shows in the next `renew`. The keeper is told of debts."""
        for node in self._set.nodes:
            node.on_debt = lambda: on_notice("", Renewal.HELD)
