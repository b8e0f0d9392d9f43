"""The moment at which an item ends, by the server's clock: whoever turns that, and when."""

from __future__ import annotations

import itertools
import math

import pytest

from locknut.backends.memcached import recipe
from locknut.core.values import Granted, Renewal
from locknut.drivers.memcached.server_clocks import DRIFT, FRESH, ServerClocks
from locknut.drivers.memcached.server_identity import Greeted
from tests.backends.memcached.conftest import claim, port, run
from tests.servers.memcached import MemcachedServer

INSTANCE = (1_700_000_000, 7)


def told(clock: int, asked: float) -> Greeted:
    return Greeted(*INSTANCE, 100, asked, clock, asked)


def test_a_clock_that_was_turned_late_is_not_believed() -> None:
    """It stood still for 20 s when it was asked again; a first answer is all there is."""
    clocks = ServerClocks()
    assert clocks.shows(INSTANCE, 10.0) is None
    clocks.heard(told(1_700_000_100, 10.0))
    assert clocks.shows(INSTANCE, 10.0) == 1_700_000_100
    clocks.heard(told(1_700_000_110, 40.0))
    assert clocks.shows(INSTANCE, 40.0) == 1_700_000_130


def test_a_clock_that_stood_still_with_its_machine_is_believed_in_the_end() -> None:
    clocks = ServerClocks()
    for asked, clock in ((10.0, 1_700_000_100), (3610.0, 1_700_000_101), (3670.0, 1_700_000_161)):
        clocks.heard(told(clock, asked))
    assert clocks.shows(INSTANCE, 3670.0) == 1_700_000_161


def test_an_answer_grows_older_and_is_good_for_a_minute() -> None:
    clocks = ServerClocks()
    clocks.heard(told(1_700_000_100, 10.0))
    shown = clocks.shows(INSTANCE, 60.0)
    assert shown is not None
    assert abs(shown - (1_700_000_150 + 50 * DRIFT)) < 0.001, "clocks drift apart"
    assert clocks.shows(INSTANCE, 10.0 + FRESH + 1) is None


def test_an_item_lives_for_its_ttl_whenever_the_clock_is_turned() -> None:
    """It shows whole seconds and is turned once in each: what it tells us may be nearly two seconds
    ago. When it ends the item, it may be right.
    """
    for tenths, late, ttl in itertools.product(range(10), range(10), (3.0, 3.3, 30.0)):
        true = 1_700_000_000 + tenths / 10
        told = math.floor(true) - (late > tenths)
        end = recipe.end_of(ttl, told)
        assert math.floor(true + ttl - 0.001) < end, "it is not over before its holder believes so"


@pytest.mark.memcached
def test_a_hold_ends_at_a_moment_of_the_servers_clock(memcached_server: MemcachedServer) -> None:
    locks, mine = port(memcached_server.url), claim("moment", ttl=30.0)
    before = int(memcached_server.stats()["time"])
    assert isinstance(run(locks.attempt(mine, 0.0)), Granted)
    left = int(memcached_server.ask("mg t:moment t").split()[1][1:])
    now = int(memcached_server.stats()["time"])
    assert before + 30 <= now + left <= now + 30 + recipe.EARLY + 2
    run(locks.release(mine))
    run(locks.close())


@pytest.mark.memcached
def test_the_server_is_asked_for_its_clock_again(
    memcached_server: MemcachedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, mine = port(memcached_server.url), claim("again", ttl=30.0)
    assert isinstance(run(locks.attempt(mine, 0.0)), Granted)
    asked: list[bool] = []
    look = locks._server.look_at_clock

    async def counted() -> None:
        asked.append(True)
        await look()

    monkeypatch.setattr(locks._server, "look_at_clock", counted)
    assert run(locks.renew([mine])) == [Renewal.HELD]
    assert not asked
    heard = locks._server.clocks._heard
    for instance, last in list(heard.items()):
        heard[instance] = last._replace(at=last.at - FRESH - 1)
    assert run(locks.renew([mine])) == [Renewal.HELD]
    assert asked == [True]
    assert run(locks.release(mine))
    run(locks.close())
