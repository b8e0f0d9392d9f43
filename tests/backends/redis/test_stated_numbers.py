"""The numbers that docs/engines/redis.md states. What happens at each of them is tested elsewhere,
often with another number, so that no test takes as long.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import locknut
from locknut import aio, opening
from locknut.backends.redis import attendance, inspector
from locknut.backends.redis.layouts import redis_py, redisson
from locknut.core import pacing, schedule
from locknut.drivers.redis import endpoints, recovery, streams
from locknut.errors import BackendUnavailable
from locknut.runtimes.clock import now
from locknut.runtimes.loop import LoopRuntime
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.redis.conftest import claim, engine
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
DAY = 86_400.0


def test_they_are_what_the_page_says() -> None:
    assert (attendance.BEAT, attendance.NET) == (1.0, 60.0)
    assert schedule.CONFIRM_AFTER == 0.05
    assert inspector.BATCH == 500
    assert (endpoints.LONG_IDLE, endpoints.SLOW_TO_OPEN, endpoints.BRIEFLY) == (0.25, 0.1, 0.25)
    assert recovery.LONGEST_PAUSE == 0.25
    assert streams.MOST_UNSENT == 16 * 1024 * 1024
    assert (redisson.NET, redis_py.POLL) == (5.0, 0.1)
    assert (pacing.GRACE, pacing.TRY_LIMIT, pacing.OUTAGE_PATIENCE) == (0.2, 0.8, 5.0)
    assert (pacing.backoff(1, 0.0), pacing.backoff(1, 1.0)) == (0.02, 0.04)
    assert (pacing.COHORT_SECONDS, opening.Settings().cohort) == (0.01, 16)
    assert dict(recovery._PROBES) == {
        "TCP_KEEPIDLE": 15,
        "TCP_KEEPINTVL": 5,
        "TCP_KEEPCNT": 3,
    }


def test_ttls(server: RedisServer) -> None:
    for port in (engine(server).blocking(ThreadRuntime()), engine(server).asyncio(LoopRuntime())):
        assert (port.min_ttl, port.default_ttl, port.max_ttl) == (0.1, 30.0, 30 * DAY)


def test_a_client_that_shows_nothing_counts_as_alive_for_three_seconds(server: RedisServer) -> None:
    port, holder, waiter = engine(server).blocking(ThreadRuntime()), claim(), claim()
    run(port.attempt(holder, 0.0))
    before = milliseconds(server)
    run(port.attempt(waiter, 0.0))
    told: Any = server.ask("ZRANGE", "t:{x}:alive", 0, -1, "WITHSCORES")
    assert before <= int(told[1]) - 3000 <= milliseconds(server)
    for each in (waiter, holder):
        run(port.release(each))
    run(port.close())


def milliseconds(server: RedisServer) -> int:
    """By its own clock."""
    seconds, micros = map(int, server.ask("TIME"))  # type: ignore[arg-type]
    return seconds * 1000 + micros // 1000


@pytest.mark.parametrize("ttl", [0.5, 30.0])
def test_a_grant_by_a_release_lives_for_three_seconds_or_its_ttl(
    server: RedisServer, ttl: float
) -> None:
    port, holder, waiter = engine(server).blocking(ThreadRuntime()), claim(), claim(ttl=ttl)
    for each in (holder, waiter):
        run(port.attempt(each, 0.0))
    run(port.release(holder))
    left = server.ask("PTTL", "t:{x}")
    assert isinstance(left, int)
    assert left <= min(ttl, 3.0) * 1000
    run(port.release(waiter))
    run(port.close())


@pytest.mark.parametrize("colour", ["blocking", "asyncio"])
def test_who_has_no_timeout_is_told_after_the_patience_with_an_outage(
    free_port: int, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    monkeypatch.setattr(pacing, "OUTAGE_PATIENCE", 0.5)
    url = f"redis://127.0.0.1:{free_port}"

    async def story() -> None:
        async with aio.connect(url) as locks:
            with pytest.raises(BackendUnavailable):
                await locks.lock("x").acquire()

    began = now()
    if colour == "asyncio":
        asyncio.run(story())
    else:
        with locknut.connect(url) as locks, pytest.raises(BackendUnavailable):
            locks.lock("x").acquire()
    assert now() - began >= 0.45
