"""The classic failures of Redlock on real servers: the published one has them, this one has not.

Both tell their history, and the checker judges.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Thread

import pytest

import locknut
from locknut.runtimes.clock import now
from locknut.testing.proxy import FaultProxy
from tests.backends.redlock.naive import NaiveRedlock
from tests.servers.processes import until
from tests.servers.redlock import RedlockNodes
from tests.servers.resp import Wire
from tests.simulation.checker import check
from tests.simulation.checker.history import Event, Kind
from tests.simulation.checker.recording import Recorder

pytestmark = pytest.mark.redis
TTL = 2.0
PATIENCE = 30.0


class Told:
    """A naive client whose history is told: it believes in its lock until it gives it back."""

    def __init__(self, who: str, nodes: RedlockNodes, history: list[Event]) -> None:
        self._naive = NaiveRedlock(nodes.nodes)
        self._who = who
        self._history = history

    def acquire(self) -> bool:
        asked = Event(now(), self._who, Kind.CALLED, "x", self._who)
        if not self._naive.acquire("x", TTL):
            return False
        self._history += [asked, Event(now(), self._who, Kind.ACQUIRED, "x", self._who)]
        return True


def rules(history: list[Event]) -> set[str]:
    return {violation.rule for violation in check(history)}


def test_a_slow_holder_of_the_published_one_is_not_alone(three: RedlockNodes) -> None:
    history: list[Event] = []
    slow, other = Told("slow", three, history), Told("other", three, history)
    assert slow.acquire()
    until(other.acquire, "the other has it")
    assert "a" in rules(history), "two hold it, and the first does not know"


def test_a_slow_holder_of_ours_knows_that_it_is_over(three: RedlockNodes) -> None:
    history: list[Event] = []
    with locknut.connect(three.url) as first, locknut.connect(three.url) as second:
        slow, other = Recorder(history.append, "slow"), Recorder(history.append, "other")
        lock = first.lock("x", ttl=TTL, auto_renew=False)
        story = slow.called(lock)
        lease = lock.acquire(timeout=PATIENCE)
        assert lease is not None
        slow.acquired(story, lease)
        with other.holding(second.lock("x", ttl=TTL), timeout=PATIENCE) as got:
            assert got is not None
            assert not slow.checked(story, lease)
            assert got.fence > lease.fence
    assert not rules(history)


@pytest.mark.parametrize("which", ["one", "two"])
def test_a_clock_that_is_set_gives_a_lock_of_the_published_one_away(
    clocks: RedlockNodes, which: str
) -> None:
    """Of the two nodes that voted one lets go too early, or both do."""
    history: list[Event] = []
    first, other = Told("first", clocks, history), Told("other", clocks, history)
    clocks.nodes[2].kill()
    assert first.acquire()
    clocks.nodes[2].start()
    for node in clocks.nodes[: 1 if which == "one" else 2]:
        node.set_clock(60)
    assert other.acquire()
    assert "a" in rules(history), "two hold it, long before the time of the first is over"


@pytest.mark.parametrize("ahead", [60, -60])
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_node_whose_clock_was_set_gives_no_vote_that_counts(
    clocks: RedlockNodes, ahead: float, known: bool
) -> None:
    """Whether the other client knew its clock before, or meets it now; and when the lock is free
    the two others are enough.
    """
    history: list[Event] = []
    with locknut.connect(clocks.url) as here, locknut.connect(clocks.url) as there:
        first, other = Recorder(history.append, "first"), Recorder(history.append, "other")
        if known:
            with there.lock("met"):
                pass
        clocks.nodes[2].kill()
        mine = here.lock("x", ttl=20, auto_renew=False)
        with first.holding(mine, timeout=PATIENCE) as lease:
            assert lease is not None
            clocks.nodes[2].start()
            clocks.nodes[0].set_clock(ahead)
            with other.holding(there.lock("x"), timeout=1) as got:
                assert got is None
            lease.check()
        with other.holding(there.lock("x"), timeout=PATIENCE) as got:
            assert got is not None
            assert got.fence > lease.fence
    assert not rules(history)


@pytest.fixture
def ways(three: RedlockNodes) -> Iterator[list[FaultProxy]]:
    """The way to each node."""
    with ExitStack() as stack:
        yield [stack.enter_context(FaultProxy((n.host, n.port))) for n in three.nodes]


def test_a_vote_that_comes_after_the_release_blocks_the_published_one(
    three: RedlockNodes, ways: list[FaultProxy]
) -> None:
    """Sent on one connection, released on another: what was stuck comes later, to stay."""
    naive = NaiveRedlock(three.nodes)
    stuck = []
    for way in ways[1:]:
        way.requests.hold()
        wire = Wire(socket.create_connection((way.host, way.port), PATIENCE))
        stuck.append(wire)
        wire.send("SET", "x", naive.id, "NX", "PX", 60_000)
        way.requests.wait_for(b"SET")
    naive.release("x")
    for way in ways[1:]:
        way.requests.release()
    until(lambda: all(node.ask("EXISTS", "x") for node in three.nodes[1:]), "both voted")
    assert not NaiveRedlock(three.nodes).acquire("x", TTL), "nobody holds it, and nobody gets it"
    for wire in stuck:
        wire.close()


def meet(locks: locknut.Locks, nodes: RedlockNodes) -> None:
    """Until every node has been spoken to, the last one too, and nothing is on its way to any."""

    def standing() -> list[bool]:
        return [node.ask("EXISTS", "locknut:{met}:redlock") == 1 for node in nodes.nodes]

    def voted() -> bool:
        with locks.lock("met"):
            return all(standing())

    until(voted, "all have voted")
    until(lambda: not any(standing()), "all have heard of the release")


def test_a_vote_that_comes_after_the_release_is_refused_by_ours(
    three: RedlockNodes, ways: list[FaultProxy]
) -> None:
    """The connection it was sent on is half-open: the release goes another way, and is faster."""
    hosts = ",".join(f"{way.host}:{way.port}" for way in ways)
    late = ways[2]
    with locknut.connect(f"redlock://{hosts}?durable=true&socket_timeout=0.5") as locks:
        meet(locks, three)
        old = late.connections
        for connection in old:
            connection.requests.hold()

        def given_up() -> bool:
            """Whether the node is spoken to on another connection by now."""
            with locks.lock("other"):
                pass
            return any(
                each.requests.seen(b"{other}") for each in late.connections if each not in old
            )

        with locks.lock("x", ttl=60):
            late.requests.wait_for(b"{x}")
            until(given_up, "it gave up")
        stone = "locknut:{x}:redlock:alive"
        until(lambda: three.nodes[2].ask("EXISTS", stone) == 1, "a tombstone")
        before = three.nodes[2].scripts_run()
        for connection in old:
            connection.requests.release()
        until(lambda: three.nodes[2].scripts_run() > before, "the vote has come")
        assert not three.nodes[2].ask("EXISTS", "locknut:{x}:redlock")


def test_a_vote_that_comes_after_the_release_of_another_thread_is_refused(
    three: RedlockNodes, ways: list[FaultProxy]
) -> None:
    """Another thread has connections of its own: nothing of it comes behind what is stuck."""
    hosts = ",".join(f"{way.host}:{way.port}" for way in ways)
    late = ways[2]
    with locknut.connect(f"redlock://{hosts}?durable=true") as locks:
        meet(locks, three)
        for connection in late.connections:
            connection.requests.hold()
        lease = locks.lock("x", ttl=60).acquire()
        assert lease is not None
        late.requests.wait_for(b"{x}")
        before = three.nodes[2].scripts_run()

        def released() -> bool:
            """There too: one that has no connection yet comes to it when it asks for more."""
            with locks.lock("other"):
                return three.nodes[2].scripts_run() > before

        def release() -> None:
            lease.release()
            until(released, "it was released there")

        in_thread(release)
        before = three.nodes[2].scripts_run()
        for connection in late.connections:
            connection.requests.release()
        until(lambda: three.nodes[2].scripts_run() > before, "the vote has come")
        assert not three.nodes[2].ask("EXISTS", "locknut:{x}:redlock")


def test_what_a_thread_could_not_take_back_is_taken_back_by_the_others(
    three: RedlockNodes, ways: list[FaultProxy]
) -> None:
    """It released by two nodes and was gone before the third had answered its greeting."""
    hosts = ",".join(f"{way.host}:{way.port}" for way in ways)
    with locknut.connect(f"redlock://{hosts}?durable=true") as locks:
        meet(locks, three)
        lease = locks.lock("x", ttl=60).acquire()
        assert lease is not None
        held = "locknut:{x}:redlock"
        until(lambda: three.nodes[2].ask("EXISTS", held) == 1, "it voted too")
        ways[2].requests.hold()
        in_thread(lease.release)
        ways[2].requests.release()

        def gone() -> bool:
            with locks.lock("other"):
                return three.nodes[2].ask("EXISTS", held) == 0

        until(gone, "it was released there", 20)


def in_thread(work: Callable[[], object]) -> None:
    """One that is gone afterwards, with its connections."""
    thread = Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
