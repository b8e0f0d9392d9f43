"""A semaphore shared with Curator's InterProcessSemaphoreV2: one line, one count, for both."""

from __future__ import annotations

import queue
import threading
from contextlib import ExitStack, suppress

import pytest
from kazoo.client import KazooClient

import locknut
from tests.backends.zookeeper.conftest import PATIENCE, children, eventually
from tests.backends.zookeeper.curators import (
    LONG,
    SHORT,
    Curator,
    Place,
    curator,
    curators,
    in_line,
    place,
)
from tests.servers.zookeeper import ZooKeeperServer

__all__ = ["curator", "curators", "place"]
pytestmark = pytest.mark.zookeeper


def test_one_permit_goes_round_among_waiters_of_both_sides(
    place: Place, curators: list[Curator]
) -> None:
    """Ours holds; theirs, ours, theirs and ours wait: each is let in in its turn."""
    locks, path, url = place
    first, second = curators
    with ExitStack() as stack:
        ours = [Waiter(stack.enter_context(locknut.connect(url)), 1) for _ in range(2)]
        with locks.semaphore("x", 1):
            first.tell("acquire", "semaphore1", path, LONG)
            in_line(locks, 1)
            ours[0].start()
            in_line(locks, 2)
            second.tell("acquire", "semaphore1", path, LONG)
            in_line(locks, 3)
            ours[1].start()
            in_line(locks, 4)
            assert len(locks.info("x").holders) == 1
        for theirs, mine in zip((first, second), ours, strict=True):
            assert theirs.said() == "acquired"
            assert not mine.entered.is_set()
            theirs.release("semaphore1", path)
            assert mine.entered.wait(PATIENCE)
            mine.leave()
    assert locks.info("x").holders == ()


class Waiter:
    """A thread that takes a permit of ours, and keeps it until it is told to leave."""

    def __init__(self, locks: locknut.Locks, permits: int) -> None:
        self.entered = threading.Event()
        self._leave = threading.Event()
        self._locks = locks
        self._permits = permits
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def _work(self) -> None:
        with self._locks.semaphore("x", self._permits, timeout=PATIENCE):
            self.entered.set()
            assert self._leave.wait(PATIENCE)


def test_ours_behind_theirs_is_woken_when_theirs_moves_up(place: Place, curator: Curator) -> None:
    """Long before it would look by itself; so many of ours as there are permits move up."""
    locks, path, url = place
    with locknut.connect(url) as other:
        held = [locks.semaphore("x", 2).acquire(timeout=PATIENCE) for _ in range(2)]
        curator.tell("acquire", "semaphore2", path, LONG)
        in_line(locks, 1)
        mine = Waiter(other, 2)
        mine.start()
        in_line(locks, 2)
        for each in held:
            assert each is not None
            each.release()
        assert curator.said() == "acquired"
        assert mine.entered.wait(PATIENCE / 2)
        found = locks.info("x")
        assert (len(found.holders), len(found.waiters), found.permits) == (2, 0, 2)
        mine.leave()
        curator.release("semaphore2", path)


@pytest.mark.slow
def test_a_waiter_of_theirs_that_dies_at_the_head_lets_ours_in(
    zookeeper_server: ZooKeeperServer, place: Place
) -> None:
    """Its place in the line and the lease that it has made already go with its session."""
    locks, path, url = place
    with locknut.connect(url) as other, Curator(zookeeper_server.address, SHORT) as dying:
        mine = Waiter(other, 1)
        with locks.semaphore("x", 1):
            dying.tell("acquire", "semaphore1", path, LONG)
            in_line(locks, 1)
            mine.start()
            in_line(locks, 2)
            dying.kill()
        assert mine.entered.wait(PATIENCE)
        mine.leave()


def test_waiters_of_ours_that_give_up_or_die_let_theirs_in(
    place: Place, curator: Curator, kazoo: KazooClient
) -> None:
    locks, path, url = place
    with locknut.connect(url) as dying:

        def wait() -> None:
            with suppress(locknut.LocknutError):
                dying.semaphore("x", 1).acquire()

        with locks.semaphore("x", 1):
            threading.Thread(target=wait).start()
            in_line(locks, 1)
            assert locks.semaphore("x", 1).acquire(timeout=0.1) is None
            curator.tell("acquire", "semaphore1", path, LONG)
            in_line(locks, 2)
            dying.close()
            in_line(locks, 1)
        assert curator.said() == "acquired"
        curator.release("semaphore1", path)
    assert children(kazoo, f"{path}/locks") == []
    assert children(kazoo, f"{path}/leases") == []


def test_nobody_says_how_many_there_are_and_holders_are_counted(
    place: Place, curators: list[Curator]
) -> None:
    """Curator's first waiter has a lease already, which does not count."""
    locks, path, _ = place
    first, second = curators
    for _ in range(2):
        assert first.acquire("semaphore2", path) == "acquired"
    assert len(locks.info("x").holders) == 2
    assert locks.info("x").permits is None
    second.tell("acquire", "semaphore2", path, LONG)
    in_line(locks, 1)
    eventually(lambda: len(locks.info("x").holders) == 2, "its lease is there, too")
    first.release("semaphore2", path)
    assert second.said() == "acquired"
    second.release("semaphore2", path)
    first.release("semaphore2", path)


def test_permits_are_counted_together(place: Place, curator: Curator) -> None:
    """Two of them, as in the Java program."""
    locks, path, _ = place
    permits = locks.semaphore("x", 2)
    assert curator.acquire("semaphore2", path) == "acquired"
    ours = permits.acquire(timeout=PATIENCE)
    assert ours is not None
    assert permits.acquire(timeout=0.1) is None
    assert curator.acquire("semaphore2", path) == "busy"
    ours.release()
    assert curator.acquire("semaphore2", path) == "acquired"
    assert permits.acquire(blocking=False) is None
    got: queue.Queue[locknut.Lease | None] = queue.Queue()
    waiter = threading.Thread(target=lambda: got.put(permits.acquire(timeout=PATIENCE)))
    waiter.start()
    eventually(lambda: _held_and_wanted(locks) == (2, 1), "ours waits")
    curator.release("semaphore2", path)
    lease = got.get(timeout=PATIENCE)
    waiter.join()
    assert lease is not None
    curator.tell("acquire", "semaphore2", path, LONG)
    eventually(lambda: _held_and_wanted(locks) == (2, 1), "theirs waits")
    lease.release()
    assert curator.said() == "acquired"
    for _ in range(2):
        curator.release("semaphore2", path)
    first, second = permits.acquire(timeout=PATIENCE), permits.acquire(timeout=PATIENCE)
    assert first is not None
    assert second is not None
    first.release()
    second.release()


def test_its_semaphore_mutex_is_a_semaphore_of_one(place: Place, curator: Curator) -> None:
    locks, path, _ = place
    with locks.semaphore("x", 1):
        assert curator.acquire("one-permit", path) == "busy"
    assert curator.acquire("one-permit", path, LONG) == "acquired"
    assert locks.semaphore("x", 1).acquire(blocking=False) is None
    curator.release("one-permit", path)
    with locks.semaphore("x", 1, timeout=PATIENCE):
        pass


def _held_and_wanted(locks: locknut.Locks) -> tuple[int, int]:
    found = locks.info("x")
    return len(found.holders), len(found.waiters)
