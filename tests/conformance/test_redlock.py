"""Redlock keeps the contract, in both colours, on five nodes."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Capability
from holdfast.testing.conformance import Conformance
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
    with holdfast.connect(redlock_nodes.url) as locks:
        assert set(Capability) - locks.capabilities == {
            Capability.FAIR,
            Capability.PERMITS,
            Capability.SESSION,
            Capability.DURABLE,
            Capability.NO_EVICTION,
        }
