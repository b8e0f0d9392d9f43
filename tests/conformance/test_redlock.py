"""Redlock keeps the contract, in both colours, on five nodes."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from tests.servers.redlock import RedlockNodes


@pytest.mark.redis
class TestRedlock(Conformance):
    @pytest.fixture
    def engine_url(self, redlock_nodes: RedlockNodes) -> str:
        """They are all well: on a busy machine they may take their time."""
        return f"{redlock_nodes.url}&node_timeout=2"


@pytest.mark.redis
def test_what_it_declares(redlock_nodes: RedlockNodes) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(redlock_nodes.url) as locks:
        assert set(Capability) - locks.capabilities == {
            Capability.FAIR,
            Capability.PERMITS,
            Capability.SESSION,
            Capability.DURABLE,
            Capability.NO_EVICTION,
            Capability.HISTORY,
        }
