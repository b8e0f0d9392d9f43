"""An etcd engine whose cluster is the reference (`Store`), in this process: the recipe alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from locknut.backends.etcd.backend import EtcdBackend
from locknut.backends.etcd.settings import Settings
from locknut.backends.etcd.shared_lease import SharedLease
from locknut.core.base import BaseEngine
from locknut.core.ports import Runtime
from locknut.drivers.etcd import settings
from locknut.drivers.etcd.requests import Compare, Event, Lease, Operation, Reply, What
from locknut.runtimes import clock
from tests.simulation.etcd.store import Store, within

TERM = 7


class LocalCluster:
    """What all engines of a test share: one member, and who watches."""

    def __init__(self, least_ttl: int = 2) -> None:
        self.mutex = threading.RLock()
        self.watches: list[LocalWatch] = []
        self.store = Store(self._tell, least_ttl)
        self.expires: dict[int, float] = {}
        self.now: Callable[[], float] = clock.now
        self.asked = 0
        """How many commands there were."""

    def _tell(self, event: Event) -> None:
        for watch in list(self.watches):
            watch.see(event)

    def look(self) -> None:
        """Whatever has run out is gone."""
        now = self.now()
        for lease in [each for each, until in self.expires.items() if until <= now]:
            del self.expires[lease]
            self.store.revoke(lease)


class LocalWatch:
    """One watch."""

    def __init__(
        self, cluster: LocalCluster, key: bytes, end: bytes, on_event: Callable[[Event], None]
    ):
        self._cluster = cluster
        self._key, self._end = key, end
        self._on_event = on_event

    def see(self, event: Event) -> None:
        if within(event.key, self._key, self._end):
            self._on_event(event)

    def close(self) -> None:
        with self._cluster.mutex:
            if self in self._cluster.watches:
                self._cluster.watches.remove(self)


class LocalLink:
    """The commands."""

    inside = staticmethod(bool)

    def __init__(self, cluster: LocalCluster):
        self._cluster = cluster

    async def transact(
        self,
        compares: Sequence[Compare],
        then: Sequence[Operation],
        otherwise: Sequence[Operation] = (),
    ) -> Reply:
        cluster, sent = self._cluster, self._cluster.now()
        with cluster.mutex:
            cluster.asked += 1
            cluster.look()
            done = cluster.store.transact(compares, then, otherwise)
            return Reply(done.succeeded, done.revision, TERM, 1, done.answers, sent)

    async def grant(self, ttl: int, lease: int = 0) -> Lease:
        cluster, sent = self._cluster, self._cluster.now()
        with cluster.mutex:
            cluster.asked += 1
            number, granted = cluster.store.grant(ttl, lease)
            cluster.expires[number] = cluster.now() + granted
            return Lease(number, granted, TERM, 1, sent)

    async def keep_alive(self, lease: int) -> Lease:
        cluster, sent = self._cluster, self._cluster.now()
        with cluster.mutex:
            cluster.asked += 1
            cluster.look()
            ttl = cluster.store.leases.get(lease, 0)
            if ttl:
                cluster.expires[lease] = cluster.now() + ttl
            return Lease(lease, ttl, TERM, 1, sent)

    async def revoke(self, lease: int) -> bool:
        cluster = self._cluster
        with cluster.mutex:
            cluster.asked += 1
            cluster.expires.pop(lease, None)
            return cluster.store.revoke(lease)

    def watch(
        self, key: bytes, from_revision: int, on_event: Callable[[Event], None], *, end: bytes = b""
    ) -> LocalWatch:
        cluster = self._cluster
        watch = LocalWatch(cluster, key, end, on_event)
        with cluster.mutex:
            cluster.look()
            before = cluster.store.since(from_revision, key, end)
            for event in [Event(What.ASK_AGAIN)] if before is None else before:
                on_event(event)
            cluster.watches.append(watch)
        return watch

    def move_on(self, member: int) -> None: ...

    async def close(self) -> None: ...

    def forked(self) -> None: ...

    def dropped(self) -> None: ...


class LocalEngine(BaseEngine):
    """Everything in one process."""

    id = "etcd:local"

    def __init__(self, cluster: LocalCluster, session_ttl: float = 10.0):
        self._cluster = cluster
        self._settings = Settings(settings.Settings((("local", 0),)), b"", session_ttl)
        self._shared: SharedLease | None = None

    def blocking(self, runtime: Runtime) -> EtcdBackend:
        if self._shared is None or self._shared.closed:
            self._shared = SharedLease(self._settings)
        return EtcdBackend(LocalLink(self._cluster), self._shared, runtime)

    def asyncio(self, runtime: Runtime) -> EtcdBackend:
        return self.blocking(runtime)

    def anew(self) -> LocalEngine:
        return LocalEngine(self._cluster, self._settings.session_ttl)
