"""The Redis engine keeps the contract on Valkey too, in both colours."""

from __future__ import annotations

import pytest

from tests.conformance.selections import AroundTheVerbs, EveryVerb
from tests.servers.redis import RedisServer


class OnValkey:
    @pytest.fixture
    def engine_url(self, valkey_server: RedisServer) -> str:
        return valkey_server.url.replace("redis://", "valkey://")


@pytest.mark.redis
class TestValkey(OnValkey, EveryVerb):
    pass


@pytest.mark.redis
@pytest.mark.slow
class TestValkeyFurther(OnValkey, AroundTheVerbs):
    pass
