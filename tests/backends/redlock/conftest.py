"""Nodes for one test alone: what happens to them stays there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.redlock import RedlockNodes


@pytest.fixture
def three() -> Iterator[RedlockNodes]:
    with RedlockNodes(3) as nodes:
        yield nodes


@pytest.fixture
def five() -> Iterator[RedlockNodes]:
    with RedlockNodes() as nodes:
        yield nodes


@pytest.fixture
def clocks() -> Iterator[RedlockNodes]:
    """Three nodes whose clocks can be set."""
    with RedlockNodes(3, flavour="valkey", clock=True) as nodes:
        yield nodes
