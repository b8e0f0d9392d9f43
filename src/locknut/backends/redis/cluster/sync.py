"""The blocking colour on a cluster: every lock lives in one slot, and every slot at one node."""

from __future__ import annotations

from collections.abc import Sequence

from locknut.backends.redis import lock_keys
from locknut.backends.redis.backend import RedisBackend
from locknut.backends.redis.inboxes import InboxDelivery
from locknut.backends.redis.recipe import Recipe
from locknut.backends.redis.server_port import SendMany
from locknut.backends.redis.sync import BlockingServer
from locknut.core.values import Claim
from locknut.drivers.redis.cluster.node_pools import NodePools
from locknut.drivers.redis.cluster.routing import Cluster
from locknut.drivers.redis.endpoints import TimeAndChance
from locknut.drivers.redis.pools import Pool


def blocking_cluster_backend(cluster: Cluster, clock: TimeAndChance) -> RedisBackend:
    """As at one server; the names of all locks are on all masters together."""
    pools, recipe = NodePools(cluster, clock), Recipe()
    server = BlockingCluster(pools)
    delivery = InboxDelivery(pools, recipe, clock, confirmed=server.confirmation is not None)
    return RedisBackend(server, delivery, recipe, clock)


class BlockingCluster(BlockingServer):
    """All masters of a cluster, asked by threads."""

    def __init__(self, pools: NodePools):
        super().__init__(pools)
        self._pools = pools

    async def send_confirmed(self, packed: Sequence[bytes]) -> list[object]:
        return await self._pools.route(packed, self.confirmation)

    def in_reach(self, claims: Sequence[Claim]) -> bool:
        return lock_keys.one_slot(claims)

    def scatter(self, claims: Sequence[Claim]) -> Sequence[object]:
        return self._pools.owners_of(map(lock_keys.hold_key_of, claims))

    async def masters(self) -> list[SendMany]:
        return [_asynchronous(pool) for pool in self._pools.masters()]


def _asynchronous(pool: Pool) -> SendMany:
    async def send_many(packed: Sequence[bytes]) -> list[object]:
        return pool.send_many(packed)

    return send_many
