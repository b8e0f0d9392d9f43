"""What the tests of the Redis engine share: both colours as bare ports, and a tidy database."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator

import pytest

from locknut import aio
from locknut.backends.redis.engine import RedisEngine
from locknut.core.values import Claim
from locknut.urls import open_engine
from tests.servers.ports import Ports
from tests.servers.redis import RedisServer

PATIENCE = 20.0


def eventually(check: Callable[[], object], what: str) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < give_up, what
        time.sleep(0.01)


def engine(server: RedisServer) -> RedisEngine:
    found = open_engine(server.url)[0]
    assert isinstance(found, RedisEngine)
    return found


def claim(name: str = "x", **facts: object) -> Claim:
    return Claim(f"t:{name}", secrets.token_hex(16), **{"ttl": 30.0, **facts})  # type: ignore[arg-type]


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator[RedisServer]:
    """Empty before; afterwards only fences, tombstones and notes are left, which will run out."""
    redis_server.flushall()
    yield redis_server
    eventually(lambda: not left_behind(redis_server), "something was left behind")


def left_behind(server: RedisServer) -> list[str]:
    keys = server.ask("KEYS", "*")
    assert isinstance(keys, list)
    names = [key.decode() for key in keys if isinstance(key, bytes)]
    return [name for name in names if not _may_stay(server, name)]


def _may_stay(server: RedisServer, name: str) -> bool:
    if name.endswith(":alive"):
        members = server.ask("ZRANGE", name, 0, -1)
        assert isinstance(members, list)
        return all(str(each).startswith("b'-") for each in members) and _left(server, name) > 0
    if ":broken:" in name:  # a note to a holder
        return 0 < _left(server, name) <= 86_400_000
    return name.endswith(":fence") and 0 < _left(server, name) <= 2 * 86_400_000


def _left(server: RedisServer, name: str) -> int:
    left = server.ask("PTTL", name)
    assert isinstance(left, int)
    return left


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port on which nobody listens."""
    ports = Ports()
    yield from ports.reserve(1)
    ports.close()


async def somebody_waits(locks: aio.Locks, name: str = "x") -> None:
    async with asyncio.timeout(PATIENCE):
        while not (await locks.info(name)).waiters:  # noqa: ASYNC110  # the server has no event for it
            await asyncio.sleep(0.005)
