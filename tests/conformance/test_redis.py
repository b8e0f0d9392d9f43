"""The Redis engine keeps the contract, in both colours, on one server."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from tests.servers.redis import RedisServer


@pytest.mark.redis
class TestRedis(Conformance):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url


@pytest.mark.redis
def test_what_it_declares(redis_server: RedisServer) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(redis_server.url) as locks:
        assert set(Capability) - locks.capabilities == {
            Capability.SESSION,
            Capability.DURABLE,
            Capability.REPLICATED,
            Capability.NO_EVICTION,
        }
