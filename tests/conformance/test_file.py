"""The file engine keeps the contract, in both colours."""

from __future__ import annotations

from pathlib import Path

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance


@pytest.mark.file
class TestFile(Conformance):
    @pytest.fixture
    def engine_url(self, tmp_path: Path) -> str:
        return f"file://{tmp_path}"


@pytest.mark.file
def test_what_it_declares(tmp_path: Path) -> None:
    """Pinned, because what is not declared is not tested."""
    with locknut.connect(f"file://{tmp_path}") as locks:
        assert set(Capability) - locks.capabilities == {
            Capability.LEASE,
            Capability.DURABLE,
            Capability.REPLICATED,
        }
