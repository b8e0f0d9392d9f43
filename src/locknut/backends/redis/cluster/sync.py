"""The blocking colour on a cluster: every lock lives in one slot, and every slot at one node."""

from __future__ import annotations

from collections.abc import Sequence

from locknut.backends.redis import lock_keys
from locknut.backends.redis.inspector import SendMany
from locknut.backends.redis.sync import BlockingBackend
from locknut.core.values import Claim
from locknut.drivers.redis.cluster.node_pools import NodePools
from locknut.drivers.redis.cluster.routing import Cluster
from locknut.drivers.redis.endpoints import Clock
from locknut.drivers.redis.pools import Pool


class ClusterBackend(BlockingBackend):
    """As on one server; the names of all locks are on all masters together."""

    def __init__(self, cluster: Cluster, clock: Clock):
        self._pools = NodePools(cluster, clock)
        super().__init__(self._pools, clock)

    async def _send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        return await self._pools.route(packed, self._confirmation)

    def _in_reach(self, claims: Sequence[Claim]) -> bool:
        return lock_keys.one_slot(claims)

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        return self._pools.owners_of(map(lock_keys.hold_key_of, claims))

    async def _servers(self) -> list[SendMany]:
        return [_asynchronous(pool) for pool in self._pools.masters()]


def _asynchronous(pool: Pool) -> SendMany:
    async def send_many(packed: Sequence[bytes]) -> list[object]:
        return pool.send_many(packed)

    return send_many
