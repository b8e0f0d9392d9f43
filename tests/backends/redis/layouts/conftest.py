"""A tidy database, and other people's clients of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from locknut.testing.conformance.scene import Scene
from tests.backends.redis.conftest import eventually
from tests.backends.redis.layouts.java import Java
from tests.backends.redis.test_faults import Losses
from tests.servers.redis import RedisServer

STAYS = ("redisson_lock_token:", "locknut_fence:", "locknut_tombstone:", "locknut_broken:")
"""Redisson's number stays for ever; ours, tombstones and notes to holders run out."""


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator[RedisServer]:
    """Empty before; afterwards nothing is left but numbers and tombstones."""
    redis_server.flushall()
    yield redis_server
    eventually(lambda: not left_behind(redis_server), f"left: {left_behind(redis_server)}")


def left_behind(server: RedisServer) -> list[str]:
    found = [name for name in keys(server) if not name.startswith(STAYS)]
    return [name for name in found if not name.endswith(":fence")]  # of our own layout


def keys(server: RedisServer) -> list[str]:
    found = server.ask("KEYS", "*")
    assert isinstance(found, list)
    return sorted(key.decode() for key in found if isinstance(key, bytes))


def table(server: RedisServer, name: str) -> dict[str, str]:
    """A hash, as text."""
    flat = server.ask("HGETALL", name)
    assert isinstance(flat, list)
    words = [word.decode() for word in flat if isinstance(word, bytes)]
    return dict(zip(words[::2], words[1::2], strict=True))


def left(server: RedisServer, name: str) -> int:
    found = server.ask("PTTL", name)
    assert isinstance(found, int)
    return found


def key(scene: Scene, name: str = "x") -> str:
    return f"{scene.namespace}:{name}"


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> Losses:
    return Losses(monkeypatch)


@pytest.fixture
def java(server: RedisServer) -> Iterator[Java]:
    client = Java(server)
    yield client
    client.close()
