"""What the tests of history share: whoever closes waits until all is written."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _all_is_written(patient_closing: None) -> None:
    """Unless a test says how long closing waits."""
