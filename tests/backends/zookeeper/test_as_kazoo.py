"""What kazoo's own suite asks of its locks, asked of ours: with its names and with Curator's, on a
lone server and on an ensemble.

The waits and wake-ups between the two are in `test_sharing`, lost answers in `test_session`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

import locknut
from locknut import AcquireTimeout, aio
from tests.backends.zookeeper.conftest import PATIENCE, children, eventually, kazoo_client
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper


@pytest.fixture(params=["curator", "kazoo"])
def place(request: pytest.FixtureRequest, anywhere: str) -> str:
    return f"{anywhere}?layout={request.param}"


@pytest.fixture
def locks(place: str) -> Iterator[locknut.Locks]:
    with locknut.connect(place, label="one") as made:
        yield made


@pytest.fixture
def others(place: str) -> Iterator[locknut.Locks]:
    with locknut.connect(place, label="two") as made:
        yield made


def folder(place: str) -> str:
    return f"/{place.rpartition('/')[2].partition('?')[0]}/locknut/x"


def nodes(beside: KazooClient, place: str) -> list[str]:
    return children(beside, folder(place))


def contenders(locks: locknut.Locks) -> list[str]:
    found = locks.info("x")
    return [each.label for each in (*found.holders, *found.waiters)]


def test_non_blocking(
    locks: locknut.Locks, others: locknut.Locks, beside: KazooClient, place: str
) -> None:
    """Refused at once, and nobody is left in line for it; free again, it is taken."""
    with locks.lock("x"):
        assert others.lock("x").acquire(blocking=False) is None
        assert contenders(locks) == ["one"]
        assert len(nodes(beside, place)) == 1
    lease = others.lock("x").acquire(blocking=False)
    assert lease is not None
    lease.release()
    assert nodes(beside, place) == []


def test_timeout(
    locks: locknut.Locks, others: locknut.Locks, beside: KazooClient, place: str
) -> None:
    others.ping()  # a short time is too short for a connection, too
    with locks.lock("x"):
        assert others.lock("x").acquire(timeout=0.5) is None
        with pytest.raises(AcquireTimeout), others.lock("x", timeout=0.5):
            pytest.fail("nobody let go of it")
        eventually(lambda: contenders(locks) == ["one"], "out of the line")
        assert len(nodes(beside, place)) == 1


def test_contenders_are_listed_in_order(locks: locknut.Locks, others: locknut.Locks) -> None:
    with locks.lock("x"):
        waiter = threading.Thread(target=_take_and_release, args=(others,))
        waiter.start()
        eventually(lambda: contenders(locks) == ["one", "two"], "both")
        assert contenders(others) == ["one", "two"]
    waiter.join(PATIENCE)
    assert contenders(locks) == []


def _take_and_release(locks: locknut.Locks) -> None:
    with locks.lock("x", timeout=PATIENCE):
        pass


def test_cancel(
    locks: locknut.Locks, others: locknut.Locks, beside: KazooClient, place: str
) -> None:
    """Out of the line, and whoever stood behind is not kept by it."""

    async def story() -> None:
        async with aio.connect(place, label="task") as tasks:
            waiting = asyncio.create_task(tasks.lock("x").acquire())
            await asyncio.to_thread(
                eventually, lambda: contenders(locks) == ["one", "task"], "it waits"
            )
            behind.start()
            await asyncio.to_thread(
                eventually, lambda: contenders(locks) == ["one", "task", "two"], "and one behind"
            )
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(
                eventually, lambda: contenders(locks) == ["one", "two"], "the task is gone"
            )

    behind = threading.Thread(target=_take_and_release, args=(others,))
    with locks.lock("x"):
        asyncio.run(story())
    behind.join(PATIENCE)
    assert not behind.is_alive()
    assert nodes(beside, place) == []


def test_reacquire(locks: locknut.Locks) -> None:
    """One Lock, again and again, each time with a greater fence; within itself it is no wait."""
    lock = locks.lock("x")
    fences = []
    for _ in range(3):
        with lock as lease, lock as same:
            fences.append(lease.fence)
            assert same.fence == lease.fence
    assert fences == sorted(set(fences))


def test_many_threads(locks: locknut.Locks, others: locknut.Locks) -> None:
    """Nobody beside another, and everybody gets it."""
    inside: list[int] = []
    seen: list[int] = []

    def work(mine: locknut.Locks) -> None:
        with mine.lock("x", timeout=PATIENCE) as lease:
            inside.append(1)
            seen.append(len(inside))
            lease.check()
            inside.pop()

    threads = [threading.Thread(target=work, args=(each,)) for each in [locks, others] * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert seen == [1] * 16


def test_ephemeral(
    locks: locknut.Locks, others: locknut.Locks, beside: KazooClient, place: str
) -> None:
    """A hold goes with the session that made it; one that was detached, or that kazoo was told to
    keep, stays.
    """
    assert others.lock("x").acquire() is not None
    (name,) = nodes(beside, place)
    stat = beside.exists(f"{folder(place)}/{name}")
    assert stat is not None
    assert stat.ephemeralOwner == others._client.backend.session.id  # type: ignore[attr-defined]
    others.close()
    lease = locks.lock("x").acquire(timeout=PATIENCE)
    assert lease is not None
    text = lease.detach()
    (name,) = nodes(beside, place)
    stat = beside.exists(f"{folder(place)}/{name}")
    assert stat is not None
    assert stat.ephemeralOwner == 0
    assert locks.lock("x").acquire(blocking=False) is None
    locks.attach(text).release()
    assert nodes(beside, place) == []
    beside.Lock(folder(place)).acquire(ephemeral=False)
    beside.restart()
    assert locks.lock("x").acquire(blocking=False) is None


def test_ghosts_are_cleaned_up(
    locks: locknut.Locks, beside: KazooClient, place: str, server: ZooKeeperServer
) -> None:
    """A contender whose program is gone leaves with its session, from the front and from the
    middle of the line; nodes that are no contenders keep nobody out.
    """
    beside.ensure_path(f"{folder(place)}/config")
    with kazoo_client(server.address) as front, kazoo_client(server.address) as middle:
        for each in (front, middle):
            each.create(
                f"{folder(place)}/{'0' * 32}__lock__", ephemeral=True, sequence=True, makepath=True
            )
        waiter = threading.Thread(target=_take_and_release, args=(locks,))
        waiter.start()
        eventually(lambda: len(contenders(locks)) == 3, "in line behind them")
        middle.stop()
        eventually(lambda: len(contenders(locks)) == 2, "one ghost is gone")
        assert waiter.is_alive()
        front.stop()
        waiter.join(PATIENCE)
        assert not waiter.is_alive()
    assert nodes(beside, place) == ["config"]


def test_read_and_write(locks: locknut.Locks, others: locknut.Locks, place: str) -> None:
    """Readers share; a writer is alone, and a reader behind it waits its turn."""
    ours, theirs = locks.rwlock("x"), others.rwlock("x")
    with ours.read():
        with theirs.read():
            assert contenders(locks) == ["one", "two"]
        assert theirs.write().acquire(blocking=False) is None
        writer = threading.Thread(target=_write, args=(others,))
        writer.start()
        eventually(lambda: contenders(locks) == ["one", "two"], "the writer waits")
        with locknut.connect(place) as third:
            assert third.rwlock("x").read().acquire(blocking=False) is None
    writer.join(PATIENCE)
    assert not writer.is_alive()
    with ours.write():
        assert theirs.read().acquire(blocking=False) is None
        assert theirs.write().acquire(blocking=False) is None


def _write(locks: locknut.Locks) -> None:
    with locks.rwlock("x", timeout=PATIENCE).write():
        pass
