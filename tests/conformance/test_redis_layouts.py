"""The Redis engine keeps the contract in the layouts of others too, for what it declares there."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from tests.conformance.selections import EVERY_VERB
from tests.servers.redis import RedisServer


@pytest.mark.redis
class TestRedisson(Conformance):
    quick = EVERY_VERB

    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return f"{redis_server.url}?layout=redisson"


@pytest.mark.redis
class TestRedisPy(Conformance):
    quick = EVERY_VERB

    @pytest.fixture
    def engine_url(self, redis_server: RedisServer) -> str:
        return f"{redis_server.url}?layout=redis-py"


@pytest.mark.redis
@pytest.mark.parametrize(
    ("layout", "declared"),
    [
        ("redisson", {"fencing", "fair", "owners", "detaching", "wake_up", "lease"}),
        ("redis-py", {"fencing", "owners", "detaching", "lease"}),
    ],
)
def test_what_they_declare(redis_server: RedisServer, layout: str, declared: set[str]) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(f"{redis_server.url}?layout={layout}") as locks:
        assert locks.capabilities == {Capability(each) for each in declared}
