"""What the conformance runs of every engine have in common."""

from __future__ import annotations

import pytest

from locknut.core import pacing


@pytest.fixture(autouse=True)
def patient_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract is not about hanging servers, and a busy machine stalls a healthy one for longer
    than a caller in a hurry waits: each engine's own `test_hanging.py` has the real limits.
    """
    real = pacing.returns_at
    patient = lambda asked, until: max(real(asked, until), asked + 30.0)  # noqa: E731
    monkeypatch.setattr(pacing, "returns_at", patient)
