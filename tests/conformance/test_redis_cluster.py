"""The Redis engine keeps the contract, in both colours, on a cluster of three masters."""

from __future__ import annotations

import pytest

from locknut.testing.conformance import Conformance
from tests.servers.cluster import RedisCluster


@pytest.mark.redis
class TestRedisCluster(Conformance):
    @pytest.fixture
    def engine_url(self, redis_cluster: RedisCluster) -> str:
        return redis_cluster.url
