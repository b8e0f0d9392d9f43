"""One line with Curator's own locks: who holds, in which order, who wakes whom."""

from __future__ import annotations

import queue
import threading

import pytest

import locknut
from tests.backends.zookeeper.conftest import PATIENCE
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


def test_each_keeps_the_other_out(place: Place, curator: Curator) -> None:
    locks, path, _ = place
    with locks.lock("x"):
        assert curator.acquire("mutex", path) == "busy"
    assert curator.acquire("mutex", path) == "acquired"
    assert locks.lock("x").acquire(timeout=0.1) is None
    assert locks.lock("x").acquire(blocking=False) is None
    curator.release("mutex", path)
    with locks.lock("x", timeout=PATIENCE):
        pass


def test_who_waits_is_woken_in_both_directions(place: Place, curator: Curator) -> None:
    """Well before anybody would look again by himself."""
    locks, path, _ = place
    with locks.lock("x"):
        curator.tell("acquire", "mutex", path, LONG)
        in_line(locks, 1)
    assert curator.said() == "acquired"
    got: queue.Queue[locknut.Lease | None] = queue.Queue()
    waiter = threading.Thread(target=lambda: got.put(locks.lock("x").acquire(timeout=PATIENCE)))
    waiter.start()
    in_line(locks, 1)
    curator.release("mutex", path)
    lease = got.get(timeout=PATIENCE / 2)
    assert lease is not None
    lease.release()
    waiter.join()


def test_one_line_first_come_first_served(place: Place, curators: list[Curator]) -> None:
    """Theirs, ours, theirs, ours: each is let in in its turn."""
    locks, path, url = place
    first, second = curators
    entered: queue.Queue[str] = queue.Queue()
    leave = threading.Semaphore(0)

    def want(mine: locknut.Locks, name: str) -> None:
        with mine.lock("x", timeout=PATIENCE):
            entered.put(name)
            assert leave.acquire(timeout=PATIENCE)

    with locknut.connect(url) as one, locknut.connect(url) as two:
        ours = [threading.Thread(target=want, args=each) for each in ((one, "one"), (two, "two"))]
        with locks.lock("x"):
            first.tell("acquire", "mutex", path, LONG)
            in_line(locks, 1)
            ours[0].start()
            in_line(locks, 2)
            second.tell("acquire", "mutex", path, LONG)
            in_line(locks, 3)
            ours[1].start()
            in_line(locks, 4)
        for theirs, name in ((first, "one"), (second, "two")):
            assert theirs.said() == "acquired"
            assert entered.empty()
            theirs.release("mutex", path)
            assert entered.get(timeout=PATIENCE) == name
            leave.release()
        for each in ours:
            each.join(PATIENCE)


def test_readers_share_and_writers_do_not(place: Place, curator: Curator) -> None:
    locks, path, _ = place
    both = locks.rwlock("x", timeout=PATIENCE)
    assert curator.acquire("read", path) == "acquired"
    with both.read():
        pass
    assert both.write().acquire(timeout=0.1) is None
    curator.release("read", path)
    with both.read():
        assert curator.acquire("write", path) == "busy"
        assert curator.acquire("read", path) == "acquired"
        curator.release("read", path)
    with both.write():
        assert curator.acquire("read", path) == "busy"
        assert curator.acquire("write", path) == "busy"
    assert curator.acquire("write", path) == "acquired"
    assert both.read().acquire(timeout=0.1) is None
    curator.release("write", path)
    with both.write():
        pass


def test_a_mutex_of_theirs_knows_its_own_names_alone(place: Place, curators: list[Curator]) -> None:
    """Neither kazoo's, nor those of their own read-write lock."""
    _, path, url = place
    first, second = curators
    with locknut.connect(f"{url}?layout=kazoo") as locks, locks.lock("x"):
        assert first.acquire("mutex", path) == "acquired"
        first.release("mutex", path)
    assert first.acquire("write", path) == "acquired"
    assert second.acquire("mutex", path) == "acquired"
    second.release("mutex", path)
    first.release("write", path)


@pytest.mark.slow
def test_a_program_of_theirs_that_dies_lets_ours_in(
    zookeeper_server: ZooKeeperServer, place: Place
) -> None:
    """Its session ends by its timeout, and its node with it."""
    locks, path, _ = place
    with Curator(zookeeper_server.address, SHORT) as dying:
        assert dying.acquire("mutex", path) == "acquired"
        assert locks.lock("x").acquire(blocking=False) is None
    with locks.lock("x", timeout=PATIENCE):
        pass
