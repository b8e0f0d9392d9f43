"""Ctrl-C at any moment around a lock on etcd leaves no ghost in its line."""

from __future__ import annotations

import pytest

from tests.api import interrupting, stepped, storm

pytestmark = [pytest.mark.etcd, pytest.mark.faults]
OWNED = {"owned", "two_steps_owned", "refused", "waited"}
"""Kinds that take locks with an owner."""
SHORT = {"plain", "together"}
"""What every run shows; the rest is for `make test-all`."""
STEPPED = [
    pytest.param(kind, marks=[] if kind in SHORT else [pytest.mark.slow])
    for kind in stepped.KINDS
    if kind not in OWNED
]


@pytest.mark.parametrize("kind", STEPPED)
def test_at_each_moment(url: str, kind: str) -> None:
    interrupting.stepping(f"{url}?session_ttl=60&namespace=n", kind, 41)


@pytest.mark.parametrize("kind", [kind for kind in storm.KINDS if kind not in OWNED])
@pytest.mark.slow
def test_in_a_storm(url: str, kind: str) -> None:
    interrupting.storm(f"{url}?session_ttl=60&namespace=n", kind, longest=8e-3)
