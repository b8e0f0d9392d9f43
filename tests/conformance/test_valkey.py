"""The Redis engine keeps the contract on Valkey too, in both colours."""

from __future__ import annotations

import pytest

from locknut.testing.conformance import Conformance
from tests.conformance.selections import ESSENTIALS
from tests.servers.redis import RedisServer


@pytest.mark.redis
class TestValkey(Conformance):
    quick = ESSENTIALS

    @pytest.fixture
    def engine_url(self, valkey_server: RedisServer) -> str:
        return valkey_server.url.replace("redis://", "valkey://")
