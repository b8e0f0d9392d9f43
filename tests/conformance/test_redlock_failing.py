"""Redlock keeps the contract while one node at a time is killed, stopped or emptied."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from locknut.testing.conformance import Conformance
from tests.conformance.selections import ESSENTIALS
from tests.servers.mishaps import Mishaps
from tests.servers.redlock import RedlockNodes

MAX_TTL = 5.0
"""The longest ttl of the suite, and so what a node that forgot is waited for."""


@pytest.fixture(scope="module")
def unlucky_url() -> Iterator[str]:
    with RedlockNodes() as nodes:
        url = f"redlock://{nodes.hosts}?max_ttl={MAX_TTL:g}&node_timeout=1"
        with Mishaps(nodes, url, MAX_TTL):
            yield url


@pytest.mark.redis
@pytest.mark.faults
class TestRedlockWithFailingNodes(Conformance):
    quick = ESSENTIALS

    @pytest.fixture
    def engine_url(self, unlucky_url: str) -> str:
        return unlucky_url
