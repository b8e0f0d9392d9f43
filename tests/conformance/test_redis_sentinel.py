"""The Redis engine keeps the contract, in both colours, on a master that Sentinels watch."""

from __future__ import annotations

import pytest

from locknut.testing.conformance import Conformance
from tests.conformance.selections import ESSENTIALS
from tests.servers.sentinel import SentinelService


@pytest.mark.redis
class TestRedisSentinel(Conformance):
    quick = ESSENTIALS

    @pytest.fixture
    def engine_url(self, redis_sentinel: SentinelService) -> str:
        return redis_sentinel.url
