"""Breaking a hold by force: a loop is told at once, a thread by its next renewal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import locknut
from locknut import aio
from tests.backends.redis.conftest import PATIENCE
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
LONG = 30_000.0
"""A ttl whose renewals are so far apart that nobody learns anything by them."""

Make = Callable[[Any], Any]


@pytest.mark.parametrize(
    "make",
    [
        lambda locks: locks.lock("x", ttl=LONG),
        lambda locks: locks.lock("x", ttl=LONG, owner="ann"),
        lambda locks: locks.rwlock("x", ttl=LONG).read(),
        lambda locks: locks.semaphore("x", 2, ttl=LONG),
    ],
    ids=["lock", "owner", "reader", "permit"],
)
def test_a_loop_is_told_at_once(server: RedisServer, make: Make) -> None:
    async def story() -> None:
        async with (
            aio.connect(server.url, namespace="t") as locks,
            aio.connect(server.url, namespace="t") as stranger,
        ):
            lease = await make(locks).acquire()
            other = await stranger.lock("other", ttl=LONG).acquire()
            assert other is not None
            with locknut.connect(server.url, namespace="t") as operator:
                assert operator.force_release("x")
            assert await lease.lost.wait(PATIENCE)
            assert lease.reason == "broken"
            assert other.held
            await other.release()

    asyncio.run(story())


def test_the_body_of_a_broken_lock_is_cancelled_at_once(server: RedisServer) -> None:
    async def story() -> None:
        async with (
            aio.connect(server.url, namespace="t") as locks,
            locks.lock("x", ttl=LONG),
        ):
            assert await locks.force_release("x")
            await asyncio.sleep(PATIENCE)

    with pytest.raises(locknut.LeaseLost, match="broken"):
        asyncio.run(story())


def test_after_a_cut_connection_it_is_told_again(server: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(server.url, namespace="t") as locks:
            lease = await locks.lock("x", ttl=LONG).acquire()
            assert lease is not None
            server.client_kill()
            async with asyncio.timeout(PATIENCE):
                while server.ask("PUBSUB", "NUMSUB", "locknut:broken") != [b"locknut:broken", 1]:
                    with suppress(locknut.BackendUnavailable):
                        await locks.info("x")  # what is asked next makes a new connection
            assert await locks.force_release("x")
            assert await lease.lost.wait(PATIENCE)

    asyncio.run(story())


def test_a_thread_learns_of_it_by_the_next_renewal(server: RedisServer) -> None:
    with locknut.connect(server.url, namespace="t") as locks:
        lease = locks.lock("x", ttl=3).acquire()
        assert lease is not None
        assert locks.force_release("x", fence=lease.fence)
        assert lease.lost.wait(PATIENCE)
        assert lease.reason == "taken"


def test_what_a_stranger_wrote_there_is_not_told(server: RedisServer) -> None:
    secret = "not the id of a claim, but a secret of somebody"
    server.ask("SET", "t:{x}", secret)
    with server.connect() as ear, locknut.connect(server.url, namespace="t") as locks:
        ear.ask("SUBSCRIBE", "locknut:broken")
        assert locks.force_release("x")
        mine = locks.lock("y").acquire()
        assert mine is not None
        assert locks.force_release("y")
        heard = ear.read()
        assert isinstance(heard, list)
        assert heard[2] == mine._hold.claim.id.encode()
