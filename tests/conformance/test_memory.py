"""The memory engine keeps the contract, in both colours."""

from __future__ import annotations

import pytest

from holdfast.testing.conformance import Conformance


@pytest.mark.memory
class TestMemory(Conformance):
    url = "memory:conformance"
