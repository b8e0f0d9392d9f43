"""What stands in line is there as long as the line: no part of it runs out before the others."""

from __future__ import annotations

import pytest

from locknut.core.values import Busy, Granted, Mode
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.redis.conftest import claim, engine
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.redis
SILENCE = 3000


def left(server: RedisServer, part: str, permits: str = "") -> int:
    found = server.ask("PTTL", f"t:{{x}}{permits}:{part}")
    assert isinstance(found, int)
    return found


@pytest.mark.parametrize("first_ends", ["info", "line"])
@pytest.mark.slow
def test_who_joins_prolongs_all_of_it(server: RedisServer, first_ends: str) -> None:
    """A tombstone makes the line's keys last for a minute, but not what its waiters asked for."""
    port = engine(server).blocking(ThreadRuntime())
    holder, first, second = claim(), claim(), claim()
    assert isinstance(run(port.attempt(holder, 0.0)), Granted)
    run(port.release(claim(), outcome_unknown=True))
    assert isinstance(run(port.attempt(first, 0.0)), Busy)
    server.ask("PEXPIRE", f"t:{{x}}:{first_ends}", 200)  # as it would be after a while
    assert isinstance(run(port.attempt(second, 0.0)), Busy)
    for part in ("line", "info", "alive"):
        assert left(server, part) > SILENCE, part
    for each in (holder, first, second):
        run(port.release(each))
    run(port.close())


@pytest.mark.slow
def test_a_long_hold_does_not_hide_that_the_line_ends(server: RedisServer) -> None:
    port = engine(server).blocking(ThreadRuntime())
    holder, waiter = (claim(mode=Mode.PERMIT, permits=1, ttl=600.0) for _ in range(2))
    assert isinstance(run(port.attempt(holder, 0.0)), Granted)
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    server.ask("PEXPIRE", "t:{x}:permits:line", 200)
    assert isinstance(run(port.attempt(waiter, 0.0)), Busy)
    assert left(server, "line", ":permits") > SILENCE
    for each in (holder, waiter):
        run(port.release(each))
    run(port.close())
