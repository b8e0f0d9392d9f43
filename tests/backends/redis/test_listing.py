"""Looking at a large database: in small steps, only at one's own, whatever else is there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import locknut
from locknut import aio
from tests.backends.redis.permissions import documented
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
CROWD = 20_000
HELD = 1_200


@pytest.fixture(scope="module")
def crowded() -> Iterator[RedisServer]:
    """A server full of other people's keys, with locks of two namespaces among them."""
    rules = documented("mine")
    with RedisServer(user="locks", password="s3cret", rules=rules) as server:
        fill = "for i = 1, ARGV[1] do redis.call('set', 'user:' .. i, 'x') end"
        server.ask("EVAL", fill, 0, CROWD)
        for namespace in ("mine", "other"):
            lock = (
                "for i = 1, ARGV[1] do redis.call('set', ARGV[2] .. ':{job:' .. i .. '}', "
                "string.rep('a', 32) .. '1700000000[\"host\",1,\"who\",\"\",null]', 'EX', 600) end"
            )
            server.ask("EVAL", lock, 0, HELD, namespace)
        yield server


def calls(server: RedisServer, command: str) -> int:
    stat = server.info("commandstats").get(f"cmdstat_{command}", "calls=0,")
    return int(stat.partition("calls=")[2].partition(",")[0])


def test_it_is_done_in_steps_and_sees_its_own_namespace_alone(crowded: RedisServer) -> None:
    crowded.ask("CONFIG", "RESETSTAT")
    crowded.ask("ACL", "LOG", "RESET")
    with locknut.connect(crowded.url, namespace="mine") as locks:
        assert len(locks.list()) == HELD
        assert [each.name for each in locks.list("job:7")] == ["job:7"]
    assert calls(crowded, "scan") >= 2 * (CROWD + 2 * HELD) // 1100
    assert calls(crowded, "keys") == 0
    assert calls(crowded, "evalsha") <= 2 * HELD + 500  # one batch before the script was loaded
    assert crowded.ask("ACL", "LOG") == []  # it did not even try the others'


@pytest.mark.parametrize(
    "said",
    [
        *("5", "[1]", "null", "{}", "[[[", "[" * 50_000, '[1,1,"who","",null]'),
        *('["host","1","who","",null]', '["host",1,[],"",null]', '["host",1,"who",null,null]'),
        *('["host",1,"who","",{}]', '["host",1,"who","",7]'),
    ],
    ids=lambda said: said[:30],
)
def test_what_a_holder_is_said_to_be_may_be_anything(redis_server: RedisServer, said: str) -> None:
    with locknut.connect(redis_server.url, namespace="odd") as locks:
        redis_server.ask("SET", "odd:{x}", "a" * 32 + "1700000000" * 2 + said, "EX", 600)
        (info,) = locks.list()
        assert info.holders == (locknut.Holder(ttl_left=info.holders[0].ttl_left),)
        redis_server.ask("SET", "odd:{x}", "a" * 32 + "nan       " * 2 + said, "EX", 600)
        (info,) = locks.list()
        assert info.holders[0].since is None
        redis_server.ask("DEL", "odd:{x}")


def test_on_a_loop_others_are_served_meanwhile(crowded: RedisServer) -> None:
    async def story() -> None:
        async with aio.connect(crowded.url, namespace="mine") as locks:
            listing = asyncio.create_task(locks.list())
            served = 0
            while not listing.done():
                async with locks.lock("another"):
                    served += 1
            assert len(await listing) in (HELD, HELD + 1)
            assert served > 3

    asyncio.run(story())
