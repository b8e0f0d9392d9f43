"""Whose turn it is, between processes: with `fair=True` strictly who came first."""

from __future__ import annotations

import pytest

from tests.api.test_order import Order
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


class TestOnRedis(Order):
    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return redis_server.url
