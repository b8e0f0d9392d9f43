"""Kinds of engines there are: one that rings, one that grants to the next, one without a line."""

from __future__ import annotations

from locknut.backends.memory.store import Key
from locknut.core.admission import entering
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Capability, Claim, Granted
from tests.simulation.memory.backend import SimBackend
from tests.simulation.memory.node import Node, SimStore
from tests.simulation.process import Process
from tests.simulation.variant import REAL, Variant


class Grants(SimStore):
    """A release grants to the next in line, and the ring carries the grant."""

    def _call_in(self, key: Key, now: float) -> None:
        self._settle(key, now)
        for claim in list(entering(key)):
            key.line.pop(claim.id)
            self._enter(key, claim, now)
            self._ring(claim.id)

    def pushed(self, claim_id: str) -> int | None:
        return next((held.raw for held in self.holds() if held.claim.id == claim_id), None)


class Pushed(SimBackend):
    """A pushed grant counts from the last command that was answered "not yet" (S1).

    Rings and answers come by different ways and may overtake each other, so "not yet" tells which
    number was the latest then: a grant that is not newer was over before, and is dropped.
    """

    def __init__(self, process: Process, node: Node) -> None:
        super().__init__(process, node)
        self._inbox: dict[str, int] = {}
        self._not_yet: dict[str, tuple[float, int]] = {}

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # no server-side wait
        raw = self._inbox.pop(claim.id, None)
        if raw is not None and self.newer(claim.id, raw):
            return self.delivered(claim, raw)
        sent = self.process.now()
        answer, last = await self.ask(
            (claim,), lambda store, now: (store.attempt(claim, now), store._last)
        )
        if isinstance(answer, Busy):
            self._not_yet[claim.id] = sent, last
        found: Answer = answer
        return found

    def newer(self, claim_id: str, raw: int) -> bool:
        return raw > self._not_yet[claim_id][1]

    def delivered(self, claim: Claim, raw: int) -> Granted:
        return Granted(raw, claim.ttl, self._not_yet[claim.id][0])

    def _rung(self, claim_id: str, signal: Signal, pushed: int | None) -> None:
        if pushed is not None and claim_id in self._not_yet:
            self._inbox[claim_id] = pushed
        super()._rung(claim_id, signal, pushed)


class Unlined(SimStore):
    """Remembers nobody who waits: as a table of rows, or a cache."""

    def attempt(self, claim: Claim, now: float) -> Answer:
        answer = super().attempt(claim, now)
        if isinstance(answer, Busy):
            for key in self._keys.values():
                key.line.pop(claim.id, None)
        return answer


class Polled(SimBackend):
    """No line and no ring: everybody asks again by himself."""

    capabilities = SimBackend.capabilities - {Capability.FAIR, Capability.WAKE_UP}

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        answer = await super().attempt(claim, patience)
        if isinstance(answer, Busy):
            return Busy(self.process.world.random.uniform(0.02, 0.3))
        return answer


PUSHING = Variant(store=Grants, backend=Pushed)
POLLED = Variant(store=Unlined, backend=Polled)
KINDS = (REAL, PUSHING, POLLED)
