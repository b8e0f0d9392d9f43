"""The production backend and recipe on a simulated cluster; each verb tells who acts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, ClassVar, Self

from locknut.backends.etcd.backend import CLUSTER, EtcdBackend
from locknut.backends.etcd.settings import Settings
from locknut.backends.etcd.shared_lease import SharedLease
from locknut.core.values import Answer, Busy, Claim, Granted, LockInfo, Renewed
from locknut.drivers.etcd import settings
from tests.simulation.etcd.cluster import MEMBERS, Cluster
from tests.simulation.etcd.commands import SimLink
from tests.simulation.memory.node import bare
from tests.simulation.process import Process, SimRuntime

SESSION_TTL = 3.0
HOSTS = settings.Settings(tuple(("m", n) for n in range(MEMBERS)))


class Closing:
    """In place of a finalizer, which Python keeps until it is called, and the whole world with it:
    nobody is collected while a world lasts, and a process that was killed never closes.
    """

    def __init__(self) -> None:
        self._closed = False

    def detach(self) -> Self | None:
        """Something the first time, and then nothing."""
        closed, self._closed = self._closed, True
        return None if closed else self


class SimEtcd(EtcdBackend):
    """One client's backend."""

    session_ttl: ClassVar[float] = SESSION_TTL
    capabilities = CLUSTER
    min_ttl = 0.001

    def __init__(self, process: Process, cluster: Cluster) -> None:
        self._process = process
        self._cluster = cluster
        shared = cluster.shared.get(process.name)
        if shared is None:
            shared = cluster.shared[process.name] = SharedLease(
                Settings(HOSTS, b"", self.session_ttl)
            )
        first = cluster.world.random.randrange(MEMBERS)
        super().__init__(SimLink(process, cluster, [first]), shared, SimRuntime(process))
        self._leaving.detach()
        self._leaving = Closing()  # type: ignore[assignment]
        cluster.backends.append(self)

    def _by(self, *claims: Claim, breaks: str = "") -> SimEtcd:
        """The same backend, whose commands are these claims'."""
        twin = copy(self)
        link: Any = self.link
        twin.link = link.of(*(claim.id for claim in claims), breaks=breaks)
        return twin

    async def attempt(self, claim: Claim, patience: float) -> Answer:
        return await EtcdBackend.attempt(self._by(claim), claim, patience)

    async def attempt_all(self, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
        return await EtcdBackend.attempt_all(self._by(*claims), claims)

    async def renew(self, claims: Sequence[Claim]) -> list[Renewed]:
        return await EtcdBackend.renew(self._by(*claims), claims)

    async def release(self, claim: Claim, *, outcome_unknown: bool = False) -> bool:
        by = self._by(claim)
        released = await EtcdBackend.release(by, claim, outcome_unknown=outcome_unknown)
        self._withdrawn(claim)
        return released

    async def release_all(
        self, claims: Sequence[Claim], *, outcome_unknown: bool = False
    ) -> list[bool]:
        by = self._by(*claims)
        released = await EtcdBackend.release_all(by, claims, outcome_unknown=outcome_unknown)
        for claim in claims:
            self._withdrawn(claim)
        return released

    async def downgrade(self, claim: Claim) -> bool:
        return await EtcdBackend.downgrade(self._by(claim), claim)

    async def detach(self, claim: Claim, ttl: float) -> bool:
        return await EtcdBackend.detach(self._by(claim), claim, ttl)

    async def attach(self, detached: Claim, claim: Claim) -> Granted | None:
        return await EtcdBackend.attach(self._by(claim, detached), detached, claim)

    async def undo_attach(self, claim: Claim, detached: Claim) -> None:
        await EtcdBackend.undo_attach(self._by(claim, detached), claim, detached)

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        return await EtcdBackend.break_hold(self._by(breaks=key), key, raw, note)

    def _withdrawn(self, claim: Claim) -> None:
        """The client heard it: from now on this claim must not hold, wait or be granted."""
        if not self._process.dead:
            self._cluster.withdrawn(bare(claim.key), claim.id)

    def remembers(self) -> Iterator[tuple[str, str, str]]:
        """What it should have forgotten by the end."""
        if not self._process.dead:
            for claim_id, state in self.shared.states.items():
                yield bare(state.claim.key), claim_id, "a claim in the client"


class Brief(SimEtcd):
    """With a lease that most holds outlast, if nobody keeps it alive."""

    session_ttl = 1.0
