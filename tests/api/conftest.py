"""What the tests of the API share: a Locks on a memory engine of its own, by the real clock."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

import holdfast


@pytest.fixture
def url() -> str:
    return f"memory:{secrets.token_hex(8)}"


@pytest.fixture
def locks(url: str) -> Iterator[holdfast.Locks]:
    with holdfast.connect(url) as made:
        yield made
