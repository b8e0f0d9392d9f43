"""One line with Curator's own locks, in a Java program: who holds, in which order, who wakes whom.

`Contender.java` does what it is told on its input; it needs what `make servers` fetches.
"""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from unittest import SkipTest

import pytest

import locknut
from tests.backends.zookeeper.conftest import PATIENCE, eventually, root
from tests.servers.processes import program
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper

PROGRAM = Path(__file__).with_name("Contender.java")
LONG = int(PATIENCE * 1000)


class Curator:
    """One Java program with locks of Curator's: one thread, so one thing at a time."""

    def __init__(self, address: str) -> None:
        try:
            command = [program("curator"), str(PROGRAM), address]
        except SkipTest as missing:
            pytest.skip(f"needs Curator: {missing}")
        self._popen = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        assert self.said() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._popen.kill()
        self._popen.communicate()

    def tell(self, *words: object) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(" ".join(map(str, words)) + "\n")
        self._popen.stdin.flush()

    def said(self) -> str:
        return self._said.get(timeout=PATIENCE)

    def acquire(self, kind: str, path: str, milliseconds: int = 100) -> str:
        self.tell("acquire", kind, path, milliseconds)
        return self.said()

    def release(self, kind: str, path: str) -> None:
        self.tell("release", kind, path)
        assert self.said() == "released"

    def _listen(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            self._said.put(line.strip())


@pytest.fixture(scope="module")
def curators(zookeeper_server: ZooKeeperServer) -> Iterator[list[Curator]]:
    """Two programs: Java takes seconds to start, so for all the tests."""
    with ExitStack() as stack:
        started = [Curator(zookeeper_server.address) for _ in range(2)]
        yield [stack.enter_context(each) for each in started]


@pytest.fixture
def curator(curators: list[Curator]) -> Curator:
    return curators[0]


class Place(NamedTuple):
    """Our locks, and the node of the lock "x" as Curator is told of it."""

    locks: locknut.Locks
    path: str
    url: str


@pytest.fixture
def place(zookeeper_server: ZooKeeperServer) -> Iterator[Place]:
    own = root()
    url = f"{zookeeper_server.url}/{own}"
    with locknut.connect(url) as locks:
        yield Place(locks, f"/{own}/locknut/x", url)


def in_line(locks: locknut.Locks, count: int) -> None:
    eventually(lambda: len(locks.info("x").waiters) == count, f"{count} in line")


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


def test_permits_are_counted_together(place: Place, curator: Curator) -> None:
    """Two of them, as in the Java program."""
    locks, path, _ = place
    permits = locks.semaphore("x", 2)
    assert curator.acquire("semaphore", path) == "acquired"
    ours = permits.acquire(timeout=PATIENCE)
    assert ours is not None
    assert permits.acquire(timeout=0.1) is None
    assert curator.acquire("semaphore", path) == "busy"
    ours.release()
    assert curator.acquire("semaphore", path) == "acquired"
    assert permits.acquire(blocking=False) is None
    got: queue.Queue[locknut.Lease | None] = queue.Queue()
    waiter = threading.Thread(target=lambda: got.put(permits.acquire(timeout=PATIENCE)))
    waiter.start()
    eventually(lambda: _held_and_wanted(locks) == (2, 1), "ours waits")
    curator.release("semaphore", path)
    lease = got.get(timeout=PATIENCE)
    waiter.join()
    assert lease is not None
    curator.tell("acquire", "semaphore", path, LONG)
    eventually(lambda: _held_and_wanted(locks) == (2, 1), "theirs waits")
    lease.release()
    assert curator.said() == "acquired"
    for _ in range(2):
        curator.release("semaphore", path)
    first, second = permits.acquire(timeout=PATIENCE), permits.acquire(timeout=PATIENCE)
    assert first is not None
    assert second is not None
    first.release()
    second.release()


def _held_and_wanted(locks: locknut.Locks) -> tuple[int, int]:
    found = locks.info("x")
    return len(found.holders), len(found.waiters)


def test_a_program_of_theirs_that_dies_lets_ours_in(
    zookeeper_server: ZooKeeperServer, place: Place
) -> None:
    """Its session ends by its timeout, and its node with it."""
    locks, path, _ = place
    with Curator(zookeeper_server.address) as dying:
        assert dying.acquire("mutex", path) == "acquired"
        assert locks.lock("x").acquire(blocking=False) is None
    with locks.lock("x", timeout=PATIENCE):
        pass
