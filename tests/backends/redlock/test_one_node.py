"""What one node does by itself: whom it rings, which numbers it takes, what it keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import locknut
from locknut import redlock
from locknut.backends.redlock.ballots import HELD_BY_ANOTHER, QUARANTINED, TOO_SMALL, VOTED
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.recipe import Recipe
from locknut.core.values import Claim, Mode
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
        assert node.ask(node.recipe.withdraw(holder, outcome_unknown=False)) == 1
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
    assert node.ask(node.recipe.withdraw(one, outcome_unknown=False)) == 1
    assert node.ask(node.recipe.vote(other, number + 1, 1, b"", 1)) == TOO_SMALL


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "lost"])
def test_an_old_copy_of_a_vote_is_worth_nothing(
    node: OneNode, server: RedisServer, lost: bool
) -> None:
    """Neither for a number nor for whoever attaches it: it was somebody else's meanwhile."""
    one = claim()
    assert node.vote(one, 1) > HELD_BY_ANOTHER
    server.ask("HSET", MARKER, "floor", 0)
    node.recipe = Recipe(max_ttl=10.0, durable=False, set_id="")
    if lost:
        server.ask("HSET", MARKER, "run", "of another server")
    assert node.ask(node.recipe.raise_to(one, soon())) == (0 if lost else VOTED)
    attached = node.ask(node.recipe.attach(one, at_once(one)))
    assert attached == (QUARANTINED if lost else 1)


def test_what_comes_late_does_not_shorten_what_was_detached(
    node: OneNode, server: RedisServer
) -> None:
    """A renewal, or a vote of the holder, was on its way when the hold was detached for longer."""
    mine = claim()
    heir = at_once(mine)

    def ends(of: Claim) -> int:
        found = server.ask("ZSCORE", f"locknut:{{{mine.key.partition(':')[2]}}}:redlock", of.id)
        assert isinstance(found, bytes)
        return int(found)

    def renew(**how: float) -> None:
        assert node.ask(node.recipe.extend(mine, 7, anew=False, **how)) == VOTED

    assert node.vote(mine, 1) > HELD_BY_ANOTHER
    renew()
    before = ends(mine)
    renew(detached_for=9.0)
    detached = ends(mine)
    assert detached > before + 3000
    renew()
    assert ends(mine) == detached
    assert node.vote(mine, 2) > HELD_BY_ANOTHER
    assert ends(mine) == detached
    attach = node.recipe.attach(mine, heir)
    assert node.ask(attach) == 1
    assert ends(heir) < detached, "a holder that dies now would keep it for longer than its ttl"
    again = node.recipe.extend(heir, 7, anew=False, detached_for=9.0)
    assert node.ask(again) == VOTED
    detached = ends(heir)
    assert node.ask(attach) == 1
    assert ends(heir) == detached, "an attach that is repeated comes late as well"
    back = node.recipe.attach(heir, mine._replace(ttl=9.0), back=True)
    assert node.ask(back) == 1
    detached = ends(mine)
    renew()
    assert ends(mine) == detached, "who gave an attach up has detached it again"
    renew(detached_for=2.0)
    assert ends(mine) < detached, "it may be detached for less"


@pytest.mark.parametrize("anew", [False, True], ids=["missed", "set anew"])
def test_a_renewal_tells_a_node_of_the_downgrade_that_it_missed(node: OneNode, anew: bool) -> None:
    """It kept readers out for as long as the hold was renewed: the downgrade had not reached it, or
    it had lost the hold, and a late renewal from before the downgrade set that anew.
    """
    mine = claim()
    shared = mine._replace(mode=Mode.SHARED)
    reader, writer = at_once(mine)._replace(mode=Mode.SHARED), at_once(mine)
    if anew:
        assert node.ask(node.recipe.extend(mine, 7, anew=True)) == 2
    else:
        assert node.vote(mine, 1) > HELD_BY_ANOTHER
    assert node.vote(reader, 1) == HELD_BY_ANOTHER
    assert node.ask(node.recipe.extend(shared, 7, anew=False)) == VOTED
    assert node.vote(reader, 2) > HELD_BY_ANOTHER
    assert node.vote(writer, 1) == HELD_BY_ANOTHER
    assert node.ask(node.recipe.extend(mine, 7, anew=False)) == VOTED, "one from before, later yet"
    assert node.vote(at_once(mine)._replace(mode=Mode.SHARED), 1) > HELD_BY_ANOTHER


DAY = 86_400_000


def test_on_the_short_way_too_a_number_is_known_for_a_day_after_what_it_says(
    node: OneNode, server: RedisServer
) -> None:
    """It is ahead of the clock, which was set back: forgotten sooner, with no data lost, a later
    number would be smaller (S11).
    """
    mine = claim()
    base = f"locknut:{{{mine.key.partition(':')[2]}}}:redlock"
    assert node.vote(mine, 1) > HELD_BY_ANOTHER
    number = (time.time_ns() // 1000 + 2 * DAY * 1000) // 32

    def went_the_short_way() -> bool:
        """Which is open for a moment after the node has looked at its clock."""
        server.ask("DEL", base, f"{base}:info", f"{base}:line", f"{base}:alive")
        server.ask("SET", f"{base}:fence", f"{number} {mine.id} ")
        server.ask("HSET", MARKER, "clock", time.time_ns() // 1000 + 200_000)
        asked = node.recipe.vote(at_once(mine), number + 1, 1, b"", 1)
        assert node.ask(asked) == VOTED
        return server.ask("EXISTS", f"{base}:info") == 0

    until(went_the_short_way, "the short way is gone")
    known = server.ask("PEXPIRETIME", f"{base}:fence")
    assert isinstance(known, int)
    assert known >= (number + 1) * 32 // 1000 + DAY


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
    redlock.begin(url)
    for node in three.nodes:
        seen = int((time.time() + ahead) * 1e6)
        node.ask("HSET", MARKER, "clock", seen)
    with locknut.connect(url) as locks:
        if votes:
            with locks.lock("x", timeout=10):
                pass
        else:
            with pytest.raises(locknut.BackendUnavailable, match="does not vote"):
                locks.lock("x").acquire(timeout=0)


def test_a_clock_that_steps_too_often_is_not_believed_for_the_longest_ttl() -> None:
    from locknut.drivers.redis import settings
    from locknut.drivers.redis.endpoints import FixedEndpoint
    from locknut.urls import parse

    endpoint = FixedEndpoint(settings.read(parse("redis://a")))
    (node,) = NodeSet([endpoint], 60.0, lambda: 1000.0).nodes
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
