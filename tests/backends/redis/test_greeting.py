"""What a server says of itself when it is greeted: whether it may forget, and who may know that."""

from __future__ import annotations

import asyncio
import logging

import pytest

import locknut
from locknut import aio
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]


def test_a_server_that_may_evict_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with RedisServer(more={"maxmemory-policy": "allkeys-lru"}) as server:
        with locknut.connect(server.url) as locks, locks.lock("x") as lease:
            lease.renew()
            server.client_kill()
            with locks.lock("y"):
                pass
        (told,) = warnings(caplog)
        assert "allkeys-lru" in told
        assert f":{server.port} " in told
        caplog.clear()

        async def story() -> None:
            async with aio.connect(server.url) as locks, locks.lock("x"):
                pass

        asyncio.run(story())
        assert len(warnings(caplog)) == 1


def test_a_server_that_keeps_everything_is_not(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with locknut.connect(server.url) as locks, locks.lock("x"):
        pass
    assert not warnings(caplog)


def test_who_may_not_know_can_lock_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    more = {"maxmemory-policy": "allkeys-lru"}
    rules = "~* &* +@all -info -config -role"
    with RedisServer(user="ann", password="s3cret", rules=rules, more=more) as server:
        with locknut.connect(server.url) as locks, locks.lock("x"):
            pass
        assert not warnings(caplog)
