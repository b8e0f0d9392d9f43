"""What becomes of holds and waiters when members or the way to them go: told in time, and truly."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import locknut
from locknut import aio
from locknut.core.values import State
from locknut.errors import BackendUnavailable, LeaseLost
from locknut.testing.proxy import FaultProxy
from tests.backends.etcd.conftest import PATIENCE, eventually, line
from tests.servers.etcd import EtcdCluster, EtcdServer

pytestmark = [pytest.mark.etcd, pytest.mark.faults]

SESSION = 4
LATE = 1.0
"""How late a caller may be: 0.2 s, and a busy machine's share."""
HOLDS = 40


@pytest.fixture
def proxy(etcd_server: EtcdServer) -> Iterator[FaultProxy]:
    with FaultProxy((etcd_server.host, etcd_server.port)) as made:
        yield made


def through(proxy: FaultProxy, path: str, session: float = SESSION) -> str:
    return f"etcd://127.0.0.1:{proxy.port}/{path}?session_ttl={session:g}"


# The client is cut off.


def test_a_short_cut_puts_a_lease_at_risk_and_nothing_is_lost(
    proxy: FaultProxy, path: str, etcd_server: EtcdServer
) -> None:
    events: list[str] = []
    with locknut.connect(through(proxy, path, 20)) as locks:
        locks.on_event(lambda event: events.append(event.kind))
        with locks.lock("x") as lease:
            proxy.refuse()
            proxy.cut()
            eventually(lambda: lease.state is State.AT_RISK, "at risk")
            with locknut.connect(f"{etcd_server.url}/{path}") as other:
                assert other.lock("x").acquire(timeout=0.1) is None
            proxy.heal()
            eventually(lambda: lease.state is State.HELD, "held again")
            lease.renew()
    assert "lost" not in events


@pytest.mark.slow
def test_a_long_cut_is_a_loss_that_the_holder_knows_first(
    proxy: FaultProxy, path: str, etcd_server: EtcdServer
) -> None:
    with (
        locknut.connect(through(proxy, path)) as locks,
        locknut.connect(f"{etcd_server.url}/{path}") as others,
    ):
        lease = locks.lock("x").acquire()
        assert lease is not None
        proxy.black_hole()
        with others.lock("x", timeout=PATIENCE) as next_one:
            assert lease.state is State.LOST
            assert next_one.fence > lease.fence
        with pytest.raises(LeaseLost):
            lease.release()
        proxy.heal()
        with locks.lock("x", timeout=PATIENCE) as again:  # with a new lease
            assert again.fence > next_one.fence


@pytest.mark.slow
def test_a_long_cut_on_a_loop(proxy: FaultProxy, path: str, etcd_server: EtcdServer) -> None:
    async def story() -> None:
        async with (
            aio.connect(through(proxy, path)) as locks,
            aio.connect(f"{etcd_server.url}/{path}") as others,
        ):
            lease = await locks.lock("x").acquire()
            assert lease is not None
            proxy.black_hole()
            async with others.lock("x", timeout=PATIENCE):
                assert lease.state is State.LOST
            proxy.heal()
            async with locks.lock("x", timeout=PATIENCE):
                pass

    asyncio.run(story())


@pytest.mark.slow
def test_a_waiter_that_was_cut_off_for_long_stands_in_line_again(
    proxy: FaultProxy, path: str, etcd_server: EtcdServer
) -> None:
    """Its key went with its lease: what it was told before counts for nothing."""
    with (
        locknut.connect(through(proxy, path)) as locks,
        locknut.connect(f"{etcd_server.url}/{path}") as others,
    ):
        held = others.lock("x").acquire()
        assert held is not None
        with _waiting(locks, lambda: len(line(etcd_server, path)) == 2) as got:
            proxy.black_hole()
            eventually(lambda: len(line(etcd_server, path)) == 1, "its key is gone")
            proxy.heal()
            eventually(lambda: len(line(etcd_server, path)) == 2, "it is there again")
            assert not got.is_set()
            held.release()
            assert got.wait(PATIENCE)


@contextmanager
def _waiting(
    locks: locknut.Locks, stands: Callable[[], object], patience: float = PATIENCE
) -> Iterator[threading.Event]:
    """A thread that waits for the lock, and what it sets when it has it."""
    got = threading.Event()

    def wait() -> None:
        with locks.lock("x", timeout=2 * patience):
            got.set()

    waiter = threading.Thread(target=wait)
    waiter.start()
    eventually(stands, "it stands in line")
    try:
        yield got
    finally:
        waiter.join(2 * patience)


# Revoked, compacted.


def test_a_revoked_lease_is_noticed_at_once(etcd_server: EtcdServer, url: str) -> None:
    with locknut.connect(f"{url}?session_ttl=60") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        began = time.monotonic()
        _revoke(etcd_server, url)
        assert lease.lost.wait(PATIENCE)
        assert time.monotonic() - began < 5, "a keep-alive is due after a quarter of a minute"
        assert lease.state is State.LOST
        with locks.lock("x", timeout=PATIENCE) as again:
            assert again.fence > lease.fence


def test_the_same_on_a_loop(etcd_server: EtcdServer, url: str) -> None:
    async def story() -> None:
        async with aio.connect(f"{url}?session_ttl=60") as locks:
            lease = await locks.lock("x").acquire()
            assert lease is not None
            await asyncio.to_thread(_revoke, etcd_server, url)
            assert await lease.lost.wait(5)

    asyncio.run(story())


def _revoke(server: EtcdServer, url: str) -> None:
    path = url.rpartition("/")[2]
    (key,) = line(server, path)
    server.etcdctl("lease", "revoke", key.rpartition("/")[2].partition("-")[0])


def test_a_compaction_during_a_wait_is_nothing(
    proxy: FaultProxy, path: str, etcd_server: EtcdServer
) -> None:
    """The watch comes back to a history that is gone; whoever waits just looks again."""
    with (
        locknut.connect(through(proxy, path, 60)) as locks,
        locknut.connect(f"{etcd_server.url}/{path}") as others,
    ):
        held = others.lock("x").acquire()
        assert held is not None
        with _waiting(locks, lambda: len(line(etcd_server, path)) == 2) as got:
            proxy.refuse()
            proxy.cut()
            for _ in range(3):
                etcd_server.etcdctl("put", f"{path}/other", "1")
            held.release()
            status = etcd_server.ask("/v3/maintenance/status", {})
            etcd_server.etcdctl("compact", status["header"]["revision"])
            proxy.heal()
            assert got.wait(PATIENCE)


# A member hangs.


def asks(timeout: float) -> dict[str, Callable[[Any], Any]]:
    return {
        "lock": lambda locks: locks.lock("x").acquire(timeout=timeout),
        "several": lambda locks: locks.all("x", "y").acquire(timeout=timeout),
        "permit": lambda locks: locks.semaphore("x", 2).acquire(timeout=timeout),
    }


@contextmanager
def _stopped(server: EtcdServer) -> Iterator[None]:
    server.stop()
    try:
        yield
    finally:
        server.cont()


@pytest.fixture(scope="module")
def lone() -> Iterator[EtcdServer]:
    with EtcdServer() as made:
        yield made


@pytest.mark.parametrize("what", ["lock", "several", "permit"])
def test_a_timeout_is_kept(lone: EtcdServer, path: str, what: str) -> None:
    for timeout in (0.2, 1.0):
        with locknut.connect(f"{lone.url}/{path}") as locks:
            with locks.lock("warm"):
                pass
            with _stopped(lone):
                began = time.monotonic()
                with suppress(BackendUnavailable):
                    assert asks(timeout)[what](locks) is None
                took = time.monotonic() - began
            assert timeout <= took < timeout + LATE
            with locks.lock("x", timeout=PATIENCE), locks.lock("y", timeout=PATIENCE):
                pass  # and nothing is in the way


@pytest.mark.parametrize("what", ["lock", "several", "permit"])
def test_a_timeout_is_kept_on_a_loop(lone: EtcdServer, path: str, what: str) -> None:
    async def story(timeout: float) -> None:
        async with aio.connect(f"{lone.url}/{path}") as locks:
            async with locks.lock("warm"):
                pass
            with _stopped(lone):
                began = time.monotonic()
                with suppress(BackendUnavailable):
                    assert await asks(timeout)[what](locks) is None
                took = time.monotonic() - began
            assert timeout <= took < timeout + LATE
            async with locks.lock("x", timeout=PATIENCE), locks.lock("y", timeout=PATIENCE):
                pass

    for timeout in (0.2, 1.0):
        asyncio.run(story(timeout))


@pytest.mark.slow
def test_a_close_waits_once_for_any_number_of_holds(lone: EtcdServer, path: str) -> None:
    locks = locknut.connect(f"{lone.url}/{path}")
    leases = [locks.lock(f"x{each}").acquire() for each in range(HOLDS)]
    assert all(leases)
    with _stopped(lone):
        began = time.monotonic()
        locks.close()
        assert time.monotonic() - began < 5 + LATE


@pytest.mark.slow
def test_so_does_one_on_a_loop(lone: EtcdServer, path: str) -> None:
    async def story() -> None:
        locks = aio.connect(f"{lone.url}/{path}")
        leases = [await locks.lock(f"x{each}").acquire() for each in range(HOLDS)]
        assert all(leases)
        with _stopped(lone):
            began = time.monotonic()
            await locks.close()
            assert time.monotonic() - began < 5 + LATE

    asyncio.run(story())


# Three members, of which one goes.


@pytest.fixture
def cluster(etcd_cluster: EtcdCluster) -> Iterator[EtcdCluster]:
    etcd_cluster.wait_until_whole()
    yield etcd_cluster
    for server in etcd_cluster.servers:
        if server.running:
            server.cont()
    etcd_cluster.heal()
    etcd_cluster.wait_until_whole()


@pytest.mark.parametrize("how", ["killed", "stopped", "cut off"])
@pytest.mark.slow
def test_a_hold_outlives_its_leader(cluster: EtcdCluster, path: str, how: str) -> None:
    """Whoever is asked first leads, and goes: the others confirm the hold, and the next one gets
    the lock.
    """
    leader = cluster.leader
    hosts = ",".join(s.address for s in (leader, *cluster.followers))
    url = f"etcd://{hosts}/{path}?socket_timeout=1s"
    with locknut.connect(url) as locks, locknut.connect(url) as others:
        lease = locks.lock("x").acquire()
        assert lease is not None
        with _waiting(others, lambda: locks.info("x").waiters) as got:
            _goes(cluster, leader, how)
            eventually(lambda: _renewed(lease), "it is confirmed by the others")
            eventually(lambda: _renewed(lease), "and again")
            assert lease.held
            assert not got.is_set()
            lease.release()
            assert got.wait(PATIENCE)


def _goes(cluster: EtcdCluster, member: EtcdServer, how: str) -> None:
    if how == "killed":
        member.kill()
    elif how == "stopped":
        member.stop()
    else:
        cluster.cut_off(member)


def _renewed(lease: locknut.Lease) -> bool:
    try:
        lease.renew()
    except locknut.BackendError:
        return False
    return True


# Nothing is left.


def test_no_lease_is_left_behind(lone: EtcdServer, path: str) -> None:
    eventually(lambda: lone.leases == 0, "what other tests left has run out", 200)
    with locknut.connect(f"{lone.url}/{path}?session_ttl=600") as locks:
        with locks.lock("x"):
            assert lone.leases == 1
        lease = locks.lock("x").acquire()
        assert lease is not None
        text = lease.detach(ttl=500)
        attached = locks.attach(text)
        assert lone.leases == 1
        attached.release()
    assert lone.leases == 0
    assert not lone.etcdctl("get", "--prefix", path, "--keys-only").split()


def test_a_detached_hold_ends_by_itself(lone: EtcdServer, path: str) -> None:
    """The cluster counts its time: nobody has to wait there for that."""
    with locknut.connect(f"{lone.url}/{path}") as locks:
        lease = locks.lock("x").acquire()
        assert lease is not None
        lease.detach(ttl=2)
        assert len(line(lone, path)) == 1
    eventually(lambda: not line(lone, path), "it is gone")
