"""The memory engine keeps the contract, in both colours."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance


@pytest.mark.memory
class TestMemory(Conformance):
    url = "memory:conformance"


@pytest.mark.memory
def test_what_it_declares() -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect("memory:") as locks:
        assert set(Capability) - locks.capabilities == {Capability.DURABLE, Capability.REPLICATED}
