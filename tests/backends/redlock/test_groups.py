"""A node is a single master. A group behind Sentinels is one only for who asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from locknut import redlock
from locknut.errors import ConfigurationError, LocknutError
from locknut.opening import Settings
from locknut.testing.conformance.colours import COLOURS
from tests.servers.cluster import RedisCluster
from tests.servers.redis import RedisServer
from tests.servers.sentinel import SentinelService

pytestmark = pytest.mark.redis


@pytest.fixture(scope="module")
def singles() -> Iterator[list[RedisServer]]:
    with RedisServer() as one, RedisServer() as other:
        yield [one, other]


@pytest.fixture(scope="module")
def group() -> Iterator[SentinelService]:
    """Of our own: a node that was in the list of another test is not counted in ours."""
    with SentinelService() as service:
        yield service


def locks_of(paint: Any, *urls: str, failover: bool = False, max_ttl: float = 60.0) -> Any:
    several = redlock.Redlock(urls, max_ttl=max_ttl, durable=True, failover=failover)
    return paint.locks(several.open_engine(), Settings("locknut"))


@pytest.mark.parametrize("colour", list(COLOURS))
def test_what_may_be_in_two_places_is_refused_when_it_is_met(
    colour: str, redis_cluster: RedisCluster, redis_sentinel: SentinelService
) -> None:
    paint = COLOURS[colour]()
    wrong: dict[str, Sequence[RedisServer]] = {
        "belongs to a cluster": redis_cluster.nodes,
        "is a Sentinel": redis_sentinel.sentinels,
        "read-only replica": [*redis_sentinel.replicas, redis_sentinel.replicas[0]],
    }

    async def body() -> None:
        for why, servers in wrong.items():
            urls = [f"redis://{each.host}:{each.port}" for each in servers]
            if len(set(urls)) < 3:
                urls[2] = urls[2].replace("127.0.0.1", "localhost")
            locks = locks_of(paint, *urls)
            with pytest.raises(LocknutError, match=why):
                await locks.lock("x").acquire(timeout=0)
            await locks.close()

    paint.run(body())


def test_a_group_is_refused_unless_it_is_asked_for(redis_sentinel: SentinelService) -> None:
    paint = COLOURS["blocking"]()
    urls = [redis_sentinel.url, "redis://a", "redis://b"]
    with pytest.raises(ConfigurationError, match="failover=True"):
        locks_of(paint, *urls)
    with pytest.raises(ConfigurationError, match="single master"):
        locks_of(paint, "redis+cluster://c", "redis://a", "redis://b", failover=True)
    with pytest.raises(ConfigurationError, match="twice"):
        locks_of(paint, redis_sentinel.url, redis_sentinel.url, "redis://b", failover=True)


@pytest.mark.parametrize("colour", list(COLOURS))
@pytest.mark.slow
def test_a_group_votes_and_goes_on_voting_after_a_failover(
    colour: str, singles: list[RedisServer], group: SentinelService
) -> None:
    paint = COLOURS[colour]()
    name = f"locknut:{{failover-{colour}}}:redlock"

    async def body() -> None:
        urls = [group.url, *(f"redis://{each.host}:{each.port}" for each in singles)]
        locks = locks_of(paint, *urls, failover=True)
        async with locks.lock("warm", timeout=30):
            pass
        async with locks.lock(f"failover-{colour}", timeout=30) as lease:
            for _ in range(1200):  # two are a majority: the group's vote may still be on its way
                if all(vote.agrees for vote in (await lease.info()).details):
                    break
                await paint.pause(0.05)
            else:
                pytest.fail("the group never agreed")
            assert group.master.ask("EXISTS", name)
            before = lease.fence
        group.failover()

        async def votes() -> bool:
            async with locks.lock(f"failover-{colour}", timeout=30) as later:
                assert later.fence > before
                return bool((await later.info()).details[0].holders)

        for _ in range(1200):  # the new master is another run, asked and durable: it votes
            if await votes():
                break
            await paint.pause(0.05)
        else:
            pytest.fail("the new master never voted")
        await locks.close()

    paint.run(body())
