"""The client's side of the simulated engine: a Backend whose commands are messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from locknut.core.base import BaseBackend
from locknut.core.ports import Signal
from locknut.core.values import Answer, Busy, Capability, Claim, Granted, LockInfo, Notice
from locknut.errors import BackendUnavailable
from tests.simulation.coroutines import Died, Future
from tests.simulation.memory.node import Command, Node, Order, SimStore, bare

if TYPE_CHECKING:
    from tests.simulation.process import Process

REPLY_WITHIN = 0.5
"""How long a command waits for its answer."""


class SimBackend(BaseBackend):
    """One process's connection to the node."""

    name = "sim"
    capabilities = frozenset(Capability) - {
        Capability.DURABLE,
        Capability.REPLICATED,
        Capability.SESSION,
        Capability.HISTORY,
    }
    default_ttl: float | None = 3.0
    min_ttl = 0.001
    max_ttl = 3600.0
    batches = True
    passes_notes = True

    def __init__(self, process: Process, node: Node) -> None:
        self.process = process
        self.node = node

    async def attempt(self, claim: Claim, patience: float) -> Answer:  # no server-side wait
        answer: Answer = await self.ask((claim,), lambda store, now: store.attempt(claim, now))
        return answer

    async def renew(self, claims: Sequence[Claim]) -> Sequence[Notice]:
        found: Sequence[Notice] = await self.ask(
            tuple(claims),
            lambda store, now: [store.renew(claim, now) for claim in claims],
            renews=True,
        )
        return found

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        def give_back(store: SimStore, now: float) -> bool:
            found = store.release(claim, now, outcome_unknown=outcome_unknown)
            self.node.withdrawn(bare(claim.key), claim.id)
            return found

        found: bool = await self.ask((claim,), give_back)
        return found

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        answer: list[Granted] | Busy = await self.ask(
            tuple(claims), lambda store, now: store.attempt_all(claims, now)
        )
        return answer

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        def give_back(store: SimStore, now: float) -> list[bool]:
            found = [store.release(claim, now, outcome_unknown=outcome_unknown) for claim in claims]
            for claim in claims:
                self.node.withdrawn(bare(claim.key), claim.id)
            return found

        found: list[bool] = await self.ask(tuple(claims), give_back)
        return found

    async def downgrade(self, claim: Claim) -> bool:
        kept: bool = await self.ask((claim,), lambda store, now: store.downgrade(claim, now))
        return kept

    async def detach(self, claim: Claim, ttl: float) -> bool:
        kept: bool = await self.ask((claim,), lambda store, now: store.detach(claim, ttl, now))
        return kept

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        found: Granted | None = await self.ask(
            (claim, detached), lambda store, now: store.attach(detached, claim, now)
        )
        return found

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        broken: LockInfo | None = await self.ask(
            (), lambda store, now: self.node.broken(key, store.break_hold(key, raw, now, note))
        )
        return broken

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        found: list[LockInfo] = await self.ask((), lambda store, now: store.inspect(key, now))
        return found

    def watch(self, claim: Claim, signal: Callable[[], Signal]) -> AbstractContextManager[Signal]:
        return self._watching(claim.id, signal())

    def listen(self, on_notice: Callable[[str | None, Notice], None]) -> None:
        self.node.listeners.append(lambda *what: None if self.process.dead else on_notice(*what))

    async def close(self) -> None:
        """Nothing to close: messages under way stay under way."""

    def forked(self) -> None:
        """Simulated processes do not fork."""

    @contextmanager
    def _watching(self, claim_id: str, signal: Signal) -> Iterator[Signal]:
        def ring(pushed: int | None) -> None:
            self.process.soon(lambda: self._rung(claim_id, signal, pushed))

        self.node.watchers[claim_id] = ring
        try:
            yield signal
        finally:
            if self.node.watchers.get(claim_id) is ring and not self.process.dead:
                del self.node.watchers[claim_id]

    def _rung(
        self, claim_id: str, signal: Signal, pushed: int | None
    ) -> None:  # nothing is pushed here
        signal.notify()

    async def ask(
        self, claims: tuple[Claim, ...], command: Command, *, renews: bool = False
    ) -> Any:
        """Send a command and wait for its answer, for as long as a connection would."""
        if self.process.dead:
            raise Died
        answer: Future[Any] = Future()
        call_off = self.process.at(
            self.process.now() + REPLY_WITHIN,
            lambda: answer.fail(BackendUnavailable("no answer in time", backend=self.name)),
        )
        order = Order(tuple(claim.id for claim in claims), command, renews)
        self.node.network.request(lambda: self._arrive(order, answer))
        try:
            return await answer
        finally:
            call_off()

    def _arrive(self, order: Order, answer: Future[Any]) -> None:
        node = self.node
        if not node.up:
            return
        reply = node.apply(order)
        if node.network.twice():
            node.apply(order)
        node.network.reply(lambda: self.process.soon(lambda: answer.resolve(reply)))
