"""The Redis engine keeps the contract, in both colours, on a master that Sentinels watch."""

from __future__ import annotations

import pytest

from tests.conformance.selections import AroundTheVerbs, EveryVerb
from tests.servers.sentinel import SentinelService


class BehindSentinels:
    @pytest.fixture
    def engine_url(self, redis_sentinel: SentinelService) -> str:
        return redis_sentinel.url


@pytest.mark.redis
class TestRedisSentinel(BehindSentinels, EveryVerb):
    pass


@pytest.mark.redis
@pytest.mark.slow
class TestRedisSentinelFurther(BehindSentinels, AroundTheVerbs):
    pass
