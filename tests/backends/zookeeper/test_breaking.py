"""Breaking a hold by force: the note to its holder lies in the lock's own node."""

from __future__ import annotations

import asyncio
import json

import pytest
from kazoo.client import KazooClient

import locknut
from locknut import aio
from tests.backends.zookeeper.conftest import children, eventually

pytestmark = pytest.mark.zookeeper


@pytest.fixture
def path(url: str, kazoo: KazooClient) -> str:
    """The node of the lock, which a server does not remove by itself: it is no container."""
    made = f"/{url.rpartition('/')[2]}/locknut/x"
    kazoo.ensure_path(made)
    return made


def data(kazoo: KazooClient, path: str) -> bytes:
    found: bytes = kazoo.get(path)[0]
    return found


def test_a_thread_is_told_why(url: str, kazoo: KazooClient, path: str) -> None:
    with locknut.connect(url) as locks, locknut.connect(url, label="ann") as admin:
        lease = locks.lock("x").acquire()
        assert lease is not None
        assert admin.force_release("x", fence=lease.fence, reason="stuck")
        assert b"stuck (by ann)" in data(kazoo, path)
        with pytest.raises(locknut.LeaseLost, match=r"broken: stuck \(by ann\)"):
            lease.renew()
        # The note is for nobody any more.
        eventually(lambda: data(kazoo, path) == b"", "the note stayed")
        assert children(kazoo, path) == [], "nothing was added to the line"


def test_who_releases_before_it_knows_is_told_why(url: str, path: str) -> None:
    with (
        locknut.connect(url) as locks,
        locknut.connect(url, label="ann") as admin,
        pytest.raises(locknut.LeaseLost, match=r"any more \(broken: stuck \(by ann\)\)"),
        locks.lock("x"),
    ):
        assert admin.force_release("x", reason="stuck")


def test_a_loop_is_told_why(url: str, path: str) -> None:
    async def story() -> None:
        async with aio.connect(url) as locks, aio.connect(url, label="ann") as admin:
            lease = await locks.lock("x").acquire()
            assert lease is not None
            assert await admin.force_release("x", fence=lease.fence, reason="stuck")
            with pytest.raises(locknut.LeaseLost, match=r"broken: stuck \(by ann\)"):
                await lease.renew()

    asyncio.run(story())


def test_all_readers_are_told_and_the_last_one_takes_the_note_away(
    url: str, kazoo: KazooClient, path: str
) -> None:
    with (
        locknut.connect(url) as first,
        locknut.connect(url) as second,
        locknut.connect(url) as admin,
    ):
        leases = [each.rwlock("x").read().acquire() for each in (first, second)]
        assert admin.force_release("x", reason="stuck")
        for lease in leases:
            assert lease is not None
            with pytest.raises(locknut.LeaseLost, match="broken: stuck"):
                lease.renew()
        eventually(lambda: data(kazoo, path) == b"", "the note stayed")


def test_a_holder_of_the_same_session_is_told_without_a_note(
    url: str, kazoo: KazooClient, path: str
) -> None:
    with locknut.connect(url) as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        assert locks.force_release("x", fence=lease.fence, reason="stuck")
        assert lease.lost.wait(20)
        assert lease.reason == "broken: stuck"
        assert data(kazoo, path) == b""


@pytest.mark.parametrize("theirs", [b"192.168.0.1", b'{"note": 1}', b"[]"])
def test_what_somebody_else_wrote_there_is_left_alone(
    url: str, kazoo: KazooClient, path: str, theirs: bytes
) -> None:
    """Curator's own default is the address of its client."""
    with locknut.connect(url) as locks, locknut.connect(url, label="ann") as admin:
        lease = locks.lock("x").acquire()
        assert lease is not None
        kazoo.set(path, theirs)
        assert admin.force_release("x", fence=lease.fence, reason="stuck")
        assert data(kazoo, path) == theirs
        with pytest.raises(locknut.LeaseLost, match="taken"):
            lease.renew()


def test_an_old_note_is_for_nobody_else_and_is_written_over(
    url: str, kazoo: KazooClient, path: str
) -> None:
    with locknut.connect(url) as locks, locknut.connect(url) as admin:
        old = {"locknut_broken": [32 * "a"], "note": "old"}
        lease = locks.lock("x").acquire()
        assert lease is not None
        kazoo.set(path, json.dumps(old).encode())
        assert admin.force_release("x", fence=lease.fence)
        with pytest.raises(locknut.LeaseLost, match="taken"):
            lease.renew()
        assert b"old" in data(kazoo, path)
        again = locks.lock("x").acquire()
        assert again is not None
        assert admin.force_release("x", fence=again.fence, reason="new")
        with pytest.raises(locknut.LeaseLost, match="broken: new"):
            again.renew()
