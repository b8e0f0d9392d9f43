"""Clocks of nodes that are set while somebody holds a lock, on real servers."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest

import locknut
from locknut import redlock
from locknut.backends.redlock import backend
from locknut.core.values import State
from locknut.errors import BackendUnavailable
from tests.backends.redlock.cutting_off import TTL, holding, nobody_else_comes_in, url_of
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
FENCE = "locknut:{x}:redlock:fence"


def set_clock(node: RedisServer, ahead: float) -> None:
    """And wait until the server knows."""
    node.set_clock(ahead)

    def shown() -> bool:
        clock = node.ask("TIME")
        assert isinstance(clock, list)
        return abs(int(clock[0]) - time.time() - ahead) < 1.5  # type: ignore[arg-type]  # bytes

    until(shown, "its clock is set")


@pytest.mark.parametrize("asked", [True, False], ids=["asked before", "not asked before"])
@pytest.mark.slow
def test_a_node_that_boots_behind_and_is_set_right_gives_no_vote(
    clocks: RedlockNodes, asked: bool
) -> None:
    """A wrong clock after a boot that NTP then corrects ends no quarantine, and takes no fence
    back: neither its uptime nor its clock is trusted alone.
    """
    node, url = clocks.nodes[2], url_of(clocks)
    redlock.begin(url)
    with holding(clocks, without=1) as lease:
        node.kill()
        node.set_clock(-120)
        node.start()
        if asked:
            with locknut.connect(url) as locks, suppress(BackendUnavailable):
                locks.lock("other").acquire(blocking=False)
        set_clock(node, 0)
        nobody_else_comes_in(url, lease)


@pytest.mark.slow
def test_a_node_that_boots_behind_does_not_take_fences_back(clocks: RedlockNodes) -> None:
    """It is set right only after its quarantine: its numbers begin above the time that the majority
    has all the same.
    """
    node, url = clocks.nodes[2], url_of(clocks)
    redlock.begin(url)
    with locknut.connect(url) as locks:
        with locks.lock("x") as lease:
            before = lease.fence
        node.kill()
        node.set_clock(-120)
        node.start()

        def votes() -> bool:
            with locks.lock("warm", timeout=5):
                return bool(node.ask("HEXISTS", "locknut:redlock", "votes"))

        until(votes, "its quarantine is over")
        floor = node.ask("HGET", "locknut:redlock", "floor")
        assert isinstance(floor, bytes)
        assert int(floor) * 32 > before, "what it has forgotten is below what it accepts"


@pytest.mark.parametrize("asked", [True, False], ids=["asked", "not asked"])
def test_a_node_that_jumps_ahead_and_is_set_right_gives_no_vote(
    clocks: RedlockNodes, asked: bool
) -> None:
    """Keys ran out early, and a client that comes new cannot know. The node does, if anybody asked
    it anything in the meantime.
    """
    node, url = clocks.nodes[2], url_of(clocks, 30)
    redlock.begin(url)
    with holding(clocks, without=1, max_ttl=30, ttl=30) as lease:
        set_clock(node, 3600)
        if asked:
            with locknut.connect(url) as locks, suppress(BackendUnavailable):
                locks.lock("other").acquire(blocking=False)
        until(lambda: not node.ask("EXISTS", "locknut:{x}:redlock"), "it ran out there")
        set_clock(node, 0)
        with locknut.connect(url) as locks:
            got: Any = None
            with suppress(BackendUnavailable):
                got = locks.lock("x").acquire(timeout=1)
        assert lease.held
        assert (got is None) is asked, "what the page says of the rest is true as well"
        assert got is None or got.fence > lease.fence


@pytest.mark.slow
def test_the_number_is_known_for_a_day_after_what_it_says(clocks: RedlockNodes) -> None:
    """All clocks are two days ahead, then right again, then nobody comes for a day."""
    url = f"redlock://{clocks.hosts}?max_ttl={TTL:g}&durable=true"
    for node in clocks.nodes:
        set_clock(node, 2 * 86400)
    with locknut.connect(url) as locks, locks.lock("x") as lease:
        before = lease.fence
    for node in clocks.nodes:
        set_clock(node, 0)
    with locknut.connect(url) as locks:
        with locks.lock("x", timeout=30) as lease:
            assert lease.fence > before
            lease.renew()
            assert_known(clocks, before)
        for _ in range(5):  # later grants, with no renewal
            with locks.lock("x", timeout=30):
                pass
        assert_known(clocks, before)


def assert_known(nodes: RedlockNodes, fence: int) -> None:
    ends = [node.ask("PEXPIRETIME", FENCE) for node in nodes.nodes]
    known = [each for each in ends if isinstance(each, int) and each > 0]
    assert len(known) >= 2
    assert all(each > fence / 1000 + 86_000_000 for each in known)


@pytest.mark.parametrize("behind", [61, 120, 7200])
def test_a_client_whose_clock_is_behind_gets_a_lock(
    three: RedlockNodes, monkeypatch: pytest.MonkeyPatch, behind: int
) -> None:
    """The nodes have been in use for longer than a number may be ahead of the clock."""
    url = f"redlock://{three.hosts}"
    redlock.begin(url)
    for node in three.nodes:
        floor = node.ask("HGET", "locknut:redlock", "floor")
        assert isinstance(floor, bytes)
        node.ask("HSET", "locknut:redlock", "floor", int(floor) - 600_000_000 // 32)

    class Behind:
        @staticmethod
        def time_ns() -> int:
            return time.time_ns() - behind * 1_000_000_000

    monkeypatch.setattr(backend, "time", Behind)
    with locknut.connect(url) as locks, locks.lock("x", timeout=10) as lease:
        assert lease.fence > (time.time() - 60) * 1e6


@pytest.mark.slow
def test_small_steps_lose_nothing_and_stop_nobody(clocks: RedlockNodes) -> None:
    """A tenth of a second on two of three: less than nodes keep a hold for longer anyway."""
    url = f"redlock://{clocks.hosts}?max_ttl=60&durable=true"
    with locknut.connect(url) as locks:
        lease = locks.lock("x", ttl=6).acquire(timeout=10)
        assert lease is not None
        lease.renew()
        for node in clocks.nodes[:2]:
            node.set_clock(0.1)
        for _ in range(4):
            lease.renew()
            with locks.lock("other", timeout=1):
                pass
            assert not lease.lost.wait(1.5)
        assert lease.held
        lease.release()


@pytest.mark.parametrize("step", [0.4, -2.0])
def test_who_still_has_the_key_renews_it_whatever_its_clock_did(
    clocks: RedlockNodes, step: float
) -> None:
    """Its vote is worth nothing for a while, but it never dropped the hold."""
    url = f"redlock://{clocks.hosts}?max_ttl=60&durable=true"
    with locknut.connect(url) as locks, locks.lock("x", ttl=20, timeout=10) as lease:
        lease.renew()
        for node in clocks.nodes[:2]:
            set_clock(node, step)
        with pytest.raises(BackendUnavailable, match="no majority"):
            locks.lock("other").acquire(timeout=1)
        for _ in range(3):
            lease.renew()
        assert lease.state is State.HELD
        assert lease.remaining > 15
