"""The memcached engine keeps the contract, in both colours, as far as it declares it."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from tests.servers.memcached import MemcachedServer


@pytest.mark.memcached
class TestMemcached(Conformance):
    @pytest.fixture
    def engine_url(self, memcached_server: MemcachedServer) -> str:
        return memcached_server.url


@pytest.mark.memcached
def test_what_it_declares(memcached_server: MemcachedServer) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(memcached_server.url) as locks:
        declared = {Capability.FENCING, Capability.DETACHING, Capability.LEASE}
        assert locks.capabilities == declared
