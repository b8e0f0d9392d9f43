"""What the tests of the API share: a Locks on a memory engine of its own, by the real clock."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

import locknut


@pytest.fixture
def url() -> str:
    return f"memory:{secrets.token_hex(8)}"


@pytest.fixture
def locks(url: str) -> Iterator[locknut.Locks]:
    with locknut.connect(url) as made:
        yield made
