"""The Redis engine keeps the contract, in both colours, on a cluster of three masters."""

from __future__ import annotations

import pytest

from locknut.testing.conformance import Conformance
from locknut.testing.conformance.lock_groups import LockGroups
from tests.conformance.selections import EVERY_VERB
from tests.servers.cluster import RedisCluster


@pytest.mark.redis
class TestRedisCluster(Conformance):
    quick = (*EVERY_VERB, LockGroups)  # whose locks are at different nodes

    @pytest.fixture
    def engine_url(self, redis_cluster: RedisCluster) -> str:
        return redis_cluster.url
