"""One line with kazoo's locks and Curator's: who holds, in which order, and who wakes whom."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

import locknut
from locknut.runtimes.threads import ThreadRuntime
from tests.backends.zookeeper.conftest import (
    PATIENCE,
    children,
    claim,
    engine,
    eventually,
    kazoo_client,
)

pytestmark = pytest.mark.zookeeper

Shared = Callable[..., Any]
CURATORS = "_c_aaaaaaaa-89ab-cdef-0123-456789abcdef-"


def folder(url: str, name: str = "x") -> str:
    """The lock's node, as another program names it."""
    return f"/{url.rpartition('/')[2].partition('?')[0]}/locknut/{name}"


@pytest.fixture(params=["curator", "kazoo"])
def layout(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture
def theirs(kazoo: KazooClient, layout: str) -> Shared:
    """kazoo's Lock on a path: with our names it has to be told of them, with its own not."""
    patterns = ["lock-", "__WRIT__"] if layout == "curator" else []

    def made(path: str, **facts: Any) -> Any:
        kazoo.ensure_path(path)  # before ours, so that it stays: kazoo relies on it
        return kazoo.Lock(path, extra_lock_patterns=patterns, **facts)

    return made


@pytest.fixture
def locks(url: str, layout: str) -> Any:
    with locknut.connect(f"{url}?layout={layout}") as made:
        yield made


def started(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def in_time(lock: Any) -> bool:
    """kazoo raises, or returns False if it was busy with something else when the time was up."""
    try:
        taken: bool = lock.acquire(timeout=0.1)
    except LockTimeout:
        return False
    return taken


def test_ours_keeps_theirs_out_and_the_other_way_round(
    locks: locknut.Locks, theirs: Shared, url: str
) -> None:
    other = theirs(folder(url))
    with locks.lock("x") as lease:
        assert not other.acquire(blocking=False)
        assert not in_time(other)
    assert other.acquire(timeout=PATIENCE)
    assert locks.lock("x").acquire(timeout=0.05) is None
    other.release()
    with locks.lock("x", timeout=PATIENCE) as again:
        assert again.fence > lease.fence


def test_who_waits_is_woken_by_the_other_in_both_directions(
    locks: locknut.Locks, theirs: Shared, url: str, kazoo: KazooClient
) -> None:
    order: list[str] = []
    path = folder(url)

    def kazoos() -> None:
        with theirs(path):
            order.append("kazoo")

    def ours() -> None:
        with locks.lock("x", fair=True):
            order.append("ours")

    crowd = []
    with locks.lock("x"):
        for number, work in enumerate((kazoos, ours, kazoos, ours)):
            crowd.append(started(work))
            eventually(lambda n=number: len(kazoo.get_children(path)) == n + 2, "in line")  # type: ignore[misc]
    for each in crowd:
        each.join(PATIENCE)
    assert order == ["kazoo", "ours", "kazoo", "ours"]
    assert children(kazoo, path) == []


@pytest.mark.parametrize("said", ['{"owner":[1],"pid":"x","who":7,"host":{}}', "[[", "\x1b"])
def test_what_a_contender_says_of_itself_may_be_anything(
    locks: locknut.Locks, theirs: Shared, url: str, said: str
) -> None:
    other = theirs(folder(url), identifier=said)
    other.acquire()
    (holder,) = locks.info("x").holders
    assert (holder.owner, holder.pid) == (None, None)
    assert hash(holder)
    assert str(holder).isprintable()
    other.release()


def test_contenders_are_shown_on_both_sides(locks: locknut.Locks, theirs: Shared, url: str) -> None:
    other = theirs(folder(url), identifier="a cron job")
    other.acquire()
    info = locks.info("x")
    assert [each.label for each in info.holders] == ["a cron job"]
    other.release()
    with locks.lock("x"):
        (shown,) = other.contenders()
        assert '"host"' in shown


def test_their_readers_and_writers_count(url: str, kazoo: KazooClient) -> None:
    path = folder(url)
    with locknut.connect(f"{url}?layout=kazoo") as locks:
        ours = locks.rwlock("x")
        with ours.read():
            assert not kazoo.WriteLock(path).acquire(blocking=False)
            reader = kazoo.ReadLock(path)
            assert reader.acquire(blocking=False)
            reader.release()
        with ours.write():
            assert not kazoo.ReadLock(path).acquire(blocking=False)
            assert not kazoo.WriteLock(path).acquire(blocking=False)
        reader = kazoo.ReadLock(path)
        reader.acquire()
        assert ours.write().acquire(blocking=False) is None
        mine = ours.read().acquire(timeout=0)
        assert mine is not None
        mine.release()
        reader.release()
        writer = kazoo.WriteLock(path)
        writer.acquire()
        assert ours.read().acquire(blocking=False) is None
        writer.release()


def test_a_ghost_of_a_dead_session_goes_with_it(url: str, kazoo: KazooClient) -> None:
    with kazoo_client(",".join(f"{host}:{port}" for host, port in kazoo.hosts)) as ghost:
        ghost.create(f"{folder(url)}/{CURATORS}lock-", ephemeral=True, sequence=True, makepath=True)
        with locknut.connect(url) as locks:
            assert locks.lock("x").acquire(timeout=0) is None
            ghost.stop()
            with locks.lock("x", timeout=PATIENCE):
                pass


@pytest.mark.parametrize(
    ("kind", "held", "free"),
    [
        ("lock-", ("lock", "read"), ()),
        ("__WRIT__", ("lock", "read"), ()),
        ("__READ__", ("lock",), ("read",)),
    ],
)
def test_curators_nodes_are_contenders(
    url: str, kazoo: KazooClient, kind: str, held: tuple[str, ...], free: tuple[str, ...]
) -> None:
    """As `InterProcessMutex` and `InterProcessReadWriteLock` name them: protected, ephemeral."""
    node = kazoo.create(
        f"{folder(url)}/{CURATORS}{kind}", b"10.0.0.7", ephemeral=True, sequence=True, makepath=True
    )
    with locknut.connect(url) as locks:
        kinds: dict[str, Any] = {"lock": locks.lock("x"), "read": locks.rwlock("x").read()}
        for each in held:
            assert kinds[each].acquire(blocking=False) is None
        for each in free:
            kinds[each].acquire(blocking=False).release()
        assert [each.label for each in locks.info("x").holders] == ["10.0.0.7"]
        woken: list[object] = []
        waiter = started(lambda: woken.append(kinds["lock"].acquire(timeout=PATIENCE)))
        eventually(lambda: locks.info("x").waiters, "in line")
        kazoo.delete(node)
        waiter.join(PATIENCE)
        assert woken[0] is not None


def test_our_nodes_are_named_as_curators(url: str, kazoo: KazooClient) -> None:
    """By what `StandardLockInternalsDriver` and `ProtectedUtils` look for."""
    with locknut.connect(url) as locks:
        shared = locks.rwlock("x")
        for lock, kind in (
            (locks.lock("x"), "lock-"),
            (shared.write(), "__WRIT__"),
            (shared.read(), "__READ__"),
        ):
            with lock as lease:
                (name,) = kazoo.get_children(folder(url))
                protected, number = name[:40], name[-10:]
                assert protected.startswith("_c_")
                assert protected[3:39].replace("-", "") == lease._hold.claim.id
                assert name == f"{protected}{kind}{number}"
                stat = kazoo.exists(f"{folder(url)}/{name}")
                assert stat.ephemeralOwner
                assert lease.fence == stat.czxid * 32


@pytest.mark.parametrize("layout", ["curator", "kazoo"], indirect=True)
def test_our_permits_stand_where_curators_do(
    locks: locknut.Locks, url: str, kazoo: KazooClient
) -> None:
    with locks.semaphore("s", 1):
        (name,) = kazoo.get_children(f"{folder(url, 's')}/leases")
        assert name.startswith("_c_")
        assert name[40:46] == "lease-"
        waiter = started(lambda: locks.semaphore("s", 1).acquire(timeout=PATIENCE))
        eventually(lambda: kazoo.get_children(f"{folder(url, 's')}/locks"), "in line")
        (name,) = kazoo.get_children(f"{folder(url, 's')}/locks")
        assert name.startswith("_c_")
        assert name[40:45] == "lock-"
    waiter.join(PATIENCE)


def test_our_nodes_are_named_as_kazoos(url: str, kazoo: KazooClient) -> None:
    with locknut.connect(f"{url}?layout=kazoo") as locks:
        shared = locks.rwlock("x")
        for lock, kind in (
            (locks.lock("x"), "__lock__"),
            (shared.write(), "__lock__"),
            (shared.read(), "__rlock__"),
        ):
            with lock as lease:
                (name,) = kazoo.get_children(folder(url))
                assert name[:-10] == f"{lease._hold.claim.id}{kind}"


def test_kazoo_knows_its_own_names_alone_unless_it_is_told(url: str, kazoo: KazooClient) -> None:
    kazoo.ensure_path(folder(url))
    with locknut.connect(url) as locks:
        with locks.lock("x"):
            unaware = kazoo.Lock(folder(url))
            assert unaware.acquire(blocking=False)
            unaware.release()
        with kazoo.Semaphore(folder(url, "s"), max_leases=1), locks.semaphore("s", 1, timeout=0):
            pass


def test_our_node_is_not_the_first_while_a_foreign_one_waits_before(url: str) -> None:
    """What our own port sees is what stands there, whoever made it."""
    port = engine(url).blocking(ThreadRuntime())
    first, second = claim(), claim()
    from locknut.runtimes.threads import run

    run(port.attempt(first, 0.0))
    run(port.attempt(second, 0.0))
    (info,) = run(port.inspect(first.key))
    assert len(info.holders) == len(info.waiters) == 1
    run(port.close())


def test_foreign_permits_are_shown_by_what_ours_say(url: str, kazoo: KazooClient) -> None:
    """Curator's leases do not tell how many there may be."""
    leases = f"{folder(url)}/leases"
    for _ in range(2):
        kazoo.create(f"{leases}/{CURATORS}lease-", ephemeral=True, sequence=True, makepath=True)
    with locknut.connect(url) as locks:
        lease = locks.semaphore("x", 3).acquire(timeout=PATIENCE)
        assert lease is not None
        assert locks.semaphore("x", 3).acquire(blocking=False) is None
        found = locks.info("x")
        assert (len(found.holders), len(found.waiters), found.permits) == (3, 0, 3)


def test_with_kazoos_names_a_lock_of_kazoos_can_rely_on_its_node(
    url: str, kazoo: KazooClient
) -> None:
    """It makes its node once; the server removes ours while nobody is there, but not that one."""
    other = kazoo.Lock(folder(url))
    with locknut.connect(f"{url}?layout=kazoo") as locks, locknut.connect(url) as plain:
        with locks.lock("x"), plain.lock("y"):
            assert not other.acquire(blocking=False)
        eventually(lambda: not kazoo.exists(folder(url, "y")), "the server has tidied up")
        assert other.acquire(timeout=PATIENCE)
        assert locks.lock("x").acquire(blocking=False) is None
        other.release()
