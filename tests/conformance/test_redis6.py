"""The oldest Redis that is supported, 6.2, keeps the contract, in both colours.

Not marked as an engine's: where there is no such server this is skipped, also in CI.
"""

from __future__ import annotations

import pytest

from locknut.testing.conformance import Conformance
from tests.conformance.selections import ESSENTIALS
from tests.servers.redis import RedisServer


class TestRedis6(Conformance):
    quick = ESSENTIALS

    @pytest.fixture
    def engine_url(self, redis6_server: RedisServer) -> str:
        assert redis6_server.info()["redis_version"].startswith("6.2")
        return redis6_server.url
