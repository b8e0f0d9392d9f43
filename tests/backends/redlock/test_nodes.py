"""Redlock on real servers that die, hang, forget and come back."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

import locknut
from locknut import Capability
from locknut.errors import (
    AcquireTimeout,
    BackendUnavailable,
    ConfigurationError,
    LeaseLost,
    Unsupported,
)
from tests.backends.redlock.naive import NaiveRedlock
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
TTL = 2.0


def forgetful(nodes: RedlockNodes, max_ttl: float = TTL) -> str:
    """As a user would have it: nothing is said about durability."""
    return f"redlock://{nodes.hosts}?max_ttl={max_ttl:g}"


def ready(nodes: RedlockNodes, max_ttl: float = TTL) -> locknut.Locks:
    """New nodes vote when the longest ttl has passed since their start."""
    locks = locknut.connect(forgetful(nodes, max_ttl))

    def votes() -> bool:
        with suppress(BackendUnavailable):
            return locks.lock("ready").acquire(timeout=5) is not None
        return False

    until(votes, "the nodes vote")
    locks.lock("ready").release()
    return locks


def keys(server: RedisServer, name: str) -> list[bytes]:
    found = server.ask("KEYS", f"*{{{name}}}:redlock")
    assert isinstance(found, list)
    return [key for key in found if isinstance(key, bytes)]


def test_a_new_set_waits_once_and_says_why(five: RedlockNodes) -> None:
    with locknut.connect(forgetful(five, 20)) as locks:
        with pytest.raises(BackendUnavailable, match=r"does not vote for .* s") as caught:
            locks.lock("x").acquire(timeout=0)
        assert "locknut redlock init" in str(caught.value)


def test_the_published_algorithm_lets_two_in_when_a_node_restarts_empty(
    five: RedlockNodes,
) -> None:
    """A, B, C vote for one; C restarts without its data; C, D, E vote for another."""
    naive = [NaiveRedlock(five.nodes) for _ in range(2)]
    for node in five.nodes[3:]:
        node.kill()
    assert naive[0].acquire("x", 30)
    for node in five.nodes[3:]:
        node.start()
    five.nodes[2].restart(keep_data=False)
    assert naive[1].acquire("x", 30), "two holders: this is the hole"


@pytest.mark.slow
def test_ours_does_not(five: RedlockNodes) -> None:
    with ready(five) as first, locknut.connect(forgetful(five)) as second:
        for node in five.nodes[3:]:
            node.stop()
        lease = first.lock("x", ttl=TTL, auto_renew=False).acquire(timeout=5)
        assert lease is not None
        for node in five.nodes[3:]:
            node.cont()
        five.nodes[2].restart(keep_data=False)
        other = second.lock("x", ttl=TTL).acquire(timeout=30)
        assert other is not None
        assert not lease.held, "the second came in while the first was sure"
        assert other.fence > lease.fence
        other.release()


def test_a_vote_that_comes_after_the_release_leaves_nothing(five: RedlockNodes) -> None:
    hung = five.nodes[4]
    with locknut.connect(five.url) as locks:
        with locks.lock("x"):
            pass
        hung.stop()
        for _ in range(3):
            with locks.lock("x"):
                pass
        hung.cont()
        give_up = time.monotonic() + 20
        while keys(hung, "x"):  # what was sent to it while it hung is done now, in order
            assert time.monotonic() < give_up, "an orphan is left on the node that hung"
            time.sleep(0.01)
        with locks.lock("x", timeout=5):
            pass


@pytest.mark.slow
def test_fences_grow_though_every_node_forgets_everything(five: RedlockNodes) -> None:
    with ready(five) as locks:
        with locks.lock("x", ttl=TTL) as lease:
            before = lease.fence
        for node in five.nodes:
            node.flushall()
        with locks.lock("x", ttl=TTL, timeout=30) as lease:
            assert lease.fence > before


@pytest.mark.slow
def test_a_majority_that_forgot_ends_the_hold(five: RedlockNodes) -> None:
    with ready(five) as locks:
        lease = locks.lock("x", ttl=TTL).acquire(timeout=5)
        assert lease is not None
        for node in five.nodes[:3]:
            node.restart(keep_data=False)
        assert lease.lost.wait(timeout=20)
        with pytest.raises(LeaseLost):
            lease.check()


@pytest.mark.slow
def test_a_minority_that_forgot_is_mended(five: RedlockNodes) -> None:
    """With exactly three votes left the next restart would end the hold (L2)."""
    ttl = TTL * 3  # a busy machine may stand still for a second or two: that is not the question
    with ready(five, ttl) as locks:
        lease = locks.lock("x", ttl=ttl).acquire(timeout=5)
        assert lease is not None
        forgot = five.nodes[0]
        forgot.restart(keep_data=False)
        give_up = time.monotonic() + 30
        while not keys(forgot, "x"):  # once it votes again
            assert time.monotonic() < give_up, "never set anew"
            time.sleep(0.05)
        five.nodes[1].restart(keep_data=False)
        five.nodes[2].restart(keep_data=False)
        time.sleep(ttl)  # by renewals alone: without the mended node there is no majority
        assert lease.held
        lease.release()
        until(lambda: not any(keys(node, "x") for node in five.nodes), "the last has heard of it")


@pytest.mark.slow
def test_clients_that_count_on_different_longest_ttls_are_refused(five: RedlockNodes) -> None:
    with (
        ready(five),
        locknut.connect(forgetful(five, TTL * 2)) as other,
        pytest.raises(ConfigurationError, match="max_ttl=2"),
    ):
        other.lock("x").acquire(timeout=0)


def test_what_votes_cannot_make_safe_is_refused(redlock_nodes: RedlockNodes) -> None:
    with locknut.connect(redlock_nodes.url) as locks:
        with pytest.raises(Unsupported):
            locks.semaphore("x", 2).acquire()
        with pytest.raises(Unsupported):
            locks.lock("x", fair=True)
        with pytest.raises(ConfigurationError):
            locks.lock("x", ttl=1)
        with pytest.raises(ConfigurationError):
            locks.lock("x", ttl=61)
    with pytest.raises(Unsupported):
        locknut.connect(redlock_nodes.url, require={Capability.PERMITS})


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        ("a:1,a:1,b:1", "twice"),
        ("a:1,b:1", "odd number"),
        ("a:1,b:1,c:1,d:1", "odd number"),
        ("a:1", "odd number"),
        ("a:1,b:1,c:1?failover=true", "failover"),
    ],
)
def test_wrong_sets_are_refused(hosts: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        locknut.connect(f"redlock://{hosts}")


def test_a_node_that_evicts_is_refused(five: RedlockNodes) -> None:
    for node in five.nodes[:3]:
        node.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    with (
        locknut.connect(five.url) as locks,
        pytest.raises(ConfigurationError, match="noeviction"),
    ):
        locks.lock("x").acquire(timeout=0)


def test_a_stopped_holder_is_told_when_it_wakes(five: RedlockNodes) -> None:
    """Its validity ends by its own clock, before the nodes give the lock away."""
    with locknut.connect(five.url) as first, locknut.connect(five.url) as second:
        lease = first.lock("x", ttl=TTL, auto_renew=False).acquire()
        assert lease is not None
        with pytest.raises(AcquireTimeout), second.lock("x", timeout=0.1):
            pass
        other = second.lock("x", ttl=TTL).acquire(timeout=20)
        assert other is not None
        assert not lease.held
        other.release()
