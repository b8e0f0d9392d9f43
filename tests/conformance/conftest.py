"""What the conformance runs of every engine have in common."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _nobody_in_a_hurry(patient_callers: None) -> None:
    """The contract is not about hanging servers: each engine's own `test_hanging.py` is."""
