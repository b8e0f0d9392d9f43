"""Ctrl-C at any moment around a lock on a server leaves no ghost there."""

from __future__ import annotations

import secrets

import pytest

from tests.api import interrupting, stepped, storm
from tests.servers.redis import RedisServer

pytestmark = [pytest.mark.redis, pytest.mark.faults]


@pytest.fixture
def url(redis_server: RedisServer) -> str:
    return f"{redis_server.url}?namespace={secrets.token_hex(4)}"


@pytest.mark.parametrize("kind", stepped.KINDS)
@pytest.mark.slow
def test_at_each_moment(url: str, kind: str) -> None:
    interrupting.stepping(url, kind, 7)


@pytest.mark.parametrize("kind", storm.KINDS)
@pytest.mark.slow
def test_in_a_storm(url: str, kind: str) -> None:
    interrupting.storm(url, kind)
