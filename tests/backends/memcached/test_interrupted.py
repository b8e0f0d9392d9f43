"""Ctrl-C at any moment around a lock in a cache leaves nothing behind there."""

from __future__ import annotations

import secrets

import pytest

from tests.api import interrupting, stepped, storm
from tests.servers.memcached import MemcachedServer

pytestmark = [pytest.mark.memcached, pytest.mark.faults]
LACKS = {"shared", "permit", "owned", "two_steps_owned", "fair", "refused", "waited"}
"""Kinds that take locks which the engine does not have."""
LONG = {"first"}
"""Connects anew each time."""
STEPPED = [
    pytest.param(kind, marks=[pytest.mark.slow] if kind in LONG else [])
    for kind in stepped.KINDS
    if kind not in LACKS
]


@pytest.fixture
def url(memcached_server: MemcachedServer) -> str:
    return f"{memcached_server.url}?namespace={secrets.token_hex(4)}"


@pytest.mark.parametrize("kind", STEPPED)
def test_at_each_moment(url: str, kind: str) -> None:
    interrupting.stepping(url, kind, 37 if kind == "first" else 13)  # it connects each time


@pytest.mark.parametrize("kind", [kind for kind in storm.KINDS if kind not in LACKS])
@pytest.mark.slow
def test_in_a_storm(url: str, kind: str) -> None:
    interrupting.storm(url, kind)
