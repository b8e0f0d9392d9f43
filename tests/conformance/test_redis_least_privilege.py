"""The Redis engine keeps the contract as a user with few rights, over TLS: both in one run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from locknut.testing.conformance import Conformance
from tests.backends.redis.permissions import documented
from tests.conformance.selections import EVERY_VERB
from tests.servers.certificates import Certificates
from tests.servers.redis import RedisServer


@pytest.fixture(scope="module")
def strict_server(certificates: Certificates) -> Iterator[RedisServer]:
    """Allows just what the documentation says, for the namespaces of the suite."""
    rules = documented("test-*")
    with RedisServer(
        certificates=certificates, user="locks", password="s3cret/@:?#%", rules=rules
    ) as server:
        yield server
        assert server.ask("ACL", "LOG") == [], "something was denied, and nobody noticed"


@pytest.mark.redis
class TestRedisLeastPrivilege(Conformance):
    quick = EVERY_VERB

    @pytest.fixture
    def engine_url(self, strict_server: RedisServer) -> str:
        return strict_server.url
