"""The Redis engine keeps the contract, in both colours, on a cluster of three masters."""

from __future__ import annotations

import pytest

from locknut.testing.conformance.lock_groups import LockGroups
from tests.conformance.selections import AroundTheVerbs, EveryVerb
from tests.servers.cluster import RedisCluster


class OnACluster:
    @pytest.fixture
    def engine_url(self, redis_cluster: RedisCluster) -> str:
        return redis_cluster.url


@pytest.mark.redis
class TestRedisCluster(OnACluster, EveryVerb):
    pass


@pytest.mark.redis
class TestSeveralSlots(OnACluster, LockGroups):
    """The locks of a group are at different nodes."""


@pytest.mark.redis
@pytest.mark.slow
class TestRedisClusterFurther(OnACluster, AroundTheVerbs):
    pass
