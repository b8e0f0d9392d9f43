"""What one node does by itself: whom it rings, which numbers it takes, what it keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import locknut
from locknut import redlocks
from locknut.backends.redlock.ballots import HELD_BY_ANOTHER, QUARANTINED, TOO_SMALL, VOTED
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.sets import Set
from locknut.core.values import Claim
from tests.backends.redlock.test_tries import OneNode, claim
from tests.servers.processes import until
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes

pytestmark = pytest.mark.redis
MARKER = "locknut:redlock"


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with RedisServer() as made:
        yield made


@pytest.fixture
def node(server: RedisServer) -> Iterator[OneNode]:
    server.flushall()
    with server.connect() as wire:
        yield OneNode(server, wire)


def at_once(of: Claim) -> Claim:
    """Another one for the same lock."""
    return claim()._replace(key=of.key)


def test_who_waits_longest_is_rung_and_nothing_is_granted(
    node: OneNode, server: RedisServer
) -> None:
    holder = claim()
    first, second = at_once(holder), at_once(holder)
    assert node.vote(holder, 1) > HELD_BY_ANOTHER
    with server.connect() as ear:
        ear.ask("SUBSCRIBE", "bell")
        for since, each in ((2, second), (1, first)):  # the second one is heard of first
            asked = node.recipe.vote(each, 1, since, b"bell", 1)
            assert node.ask(asked) == HELD_BY_ANOTHER
        assert node.ask(node.recipe.withdraw(holder, doubtful=False)) == 1
        assert ear.read() == [b"message", b"bell", first.id.encode()]
        assert server.ask("PUBLISH", "bell", "that was all") == 1
        assert ear.read() == [b"message", b"bell", b"that was all"]
    assert server.ask("ZCARD", f"locknut:{{{holder.key.partition(':')[2]}}}:redlock") == 0
    assert node.vote(claim()._replace(key=holder.key), 1) > HELD_BY_ANOTHER, "a newcomer is faster"


def soon() -> int:
    """A number that is not behind the clock, nor far ahead of it, and above what a node begins
    with.
    """
    return (time.time_ns() // 1000 + 59_000_000) // 32


def test_only_a_larger_number_is_taken_and_later_only_with_a_vote(
    node: OneNode, server: RedisServer
) -> None:
    one = claim()
    other = at_once(one)
    assert node.vote(one, 1) > HELD_BY_ANOTHER
    server.ask("HSET", MARKER, "floor", 0)
    number = soon()
    assert node.ask(node.recipe.raise_to(other, number)) == 0, "it has no vote"
    assert node.ask(node.recipe.raise_to(one, number)) == VOTED
    assert node.ask(node.recipe.raise_to(one, number - 1)) == TOO_SMALL
    assert node.ask(node.recipe.raise_to(one, number + 1)) == VOTED
    too_far = (time.time_ns() // 1000 + 75_000_000) // 32
    assert node.ask(node.recipe.raise_to(one, too_far)) == TOO_SMALL
    assert node.ask(node.recipe.withdraw(one, doubtful=False)) == 1
    assert node.ask(node.recipe.vote(other, number + 1, 1, b"", 1)) == TOO_SMALL


def test_one_machine_has_to_see_a_quarantine_through(server: RedisServer, node: OneNode) -> None:
    """Two of which each saw a part of it do not end it."""
    node.recipe = Recipe(max_ttl=2.0, durable=False, set_id="")
    assert node.vote(claim(), 1) == QUARANTINED
    majority_time = time.time_ns() // 1000

    def watched(machine: bytes, shows: float) -> int:
        return node.ask(node.recipe.watch(machine, shows, majority_time))

    began = time.monotonic()
    assert watched(b"one", 100.0) == 0
    until(lambda: time.monotonic() - began > 2.6, "by the node's own clock it is over")
    assert watched(b"other", 500.0) == 0
    assert server.ask("HEXISTS", MARKER, "votes") == 0
    assert watched(b"one", 102.7) == 1


@pytest.mark.parametrize(("ahead", "votes"), [(0.25, True), (5.0, False)])
def test_a_node_whose_clock_was_ahead_begins_a_quarantine(
    three: RedlockNodes, ahead: float, votes: bool
) -> None:
    """It notes the largest clock that it has seen: here one that it never had."""
    url = f"redlock://{three.hosts}"
    redlocks.begin(url)
    for node in three.nodes:
        seen = int((time.time() + ahead) * 1e6)
        node.ask("HSET", MARKER, "clock", seen)
    with locknut.connect(url) as locks:
        if votes:
            with locks.lock("x", timeout=10):
                pass
        else:
            with pytest.raises(locknut.BackendUnavailable, match="gives no vote"):
                locks.lock("x").acquire(timeout=0)


def test_a_clock_that_steps_too_often_is_not_believed_for_the_longest_ttl(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from locknut.backends.redis import settings
    from locknut.connect import parse

    (node,) = Set([settings.read(parse("redis://a"))], 60.0).nodes
    monkeypatch.setattr("locknut.backends.redlock.nodes.now", lambda: 1000.0)
    node.stepped(0.12)
    node.stepped(0.12)
    assert node.trusted()
    node.stepped(0.12)
    assert not node.trusted(1059.9)
    assert node.trusted(1062.0)


def test_what_is_stored_and_for_how_long(three: RedlockNodes) -> None:
    base = "locknut:{invoice:42}:redlock"
    with (
        locknut.connect(three.url, label="a till") as locks,
        locknut.connect(three.url) as others,
    ):
        with locks.lock("invoice:42"):
            assert others.lock("invoice:42").acquire(timeout=0.2) is None
        for node in three.nodes:
            found = node.ask("KEYS", "*")
            assert isinstance(found, list)
            names = {each.decode() for each in found if isinstance(each, bytes)}
            parts = {f"{base}{part}" for part in ("", ":fence", ":alive", ":line", ":info")}
            assert names - {MARKER} <= parts
            for each in names - {MARKER}:
                left = node.ask("PTTL", each)
                assert isinstance(left, int)
                assert left > 0 or not node.ask("EXISTS", each), each
        told = [node.ask("GET", f"{base}:fence") for node in three.nodes]
        assert any(isinstance(each, bytes) and b"a till" in each for each in told)
