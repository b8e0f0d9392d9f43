"""The production backend and recipe on a simulated memcached; each verb tells who acts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

from locknut.backends.memcached.backend import CAPABILITIES, MemcachedBackend
from locknut.core.values import Answer, Claim, Granted, LockInfo, Renewed
from locknut.drivers.memcached.settings import RESTART_DELAY
from tests.simulation.memcached.connection import Connection
from tests.simulation.memcached.server import Memcached
from tests.simulation.memory.node import bare
from tests.simulation.process import Process, SimRuntime


class SimMemcached(MemcachedBackend):
    """One client's backend."""

    capabilities = CAPABILITIES
    connection_type: ClassVar[type[Connection]] = Connection
    delay: ClassVar[float] = RESTART_DELAY
    min_ttl = 0.001

    def __init__(self, process: Process, server: Memcached) -> None:
        self._process = process
        self._node = server
        connection = self.connection_type(process, server)
        runtime = SimRuntime(process)
        super().__init__(connection, server.handles_of(process), self.delay, runtime)

    def _by(self, *claims: Claim, **more: bool) -> Self:
        """The same backend, whose commands are these claims'."""
        twin = copy(self)
        connection: Any = self._server
        twin._server = connection.of(*(claim.id for claim in claims), **more)
        return twin

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        return await MemcachedBackend.attempt(self._by(claim), claim, patience)

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        return await MemcachedBackend.renew(self._by(*claims, renews=True), claims)

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        by = self._by(claim)
        released = await MemcachedBackend.release(by, claim, outcome_unknown=outcome_unknown)
        self._withdrawn(claim)
        return released

    async def detach(self, claim: Claim, ttl: float) -> bool:
        return await MemcachedBackend.detach(self._by(claim), claim, ttl)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        return await MemcachedBackend.attach(self._by(claim, detached), detached, claim)

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await MemcachedBackend.undo_attach(self._by(claim, detached), claim, detached)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return await MemcachedBackend.break_hold(self._by(breaks=True), key, raw, note)

    def _withdrawn(self, claim: Claim) -> None:
        """The client heard it: from now on this claim must not hold or be granted."""
        if not self._process.dead:
            self._node.withdrawn(bare(claim.key), claim.id)
