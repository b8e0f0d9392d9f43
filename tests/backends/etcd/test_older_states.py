"""A cluster that comes back from a backup, while a Locks that is older than the backup goes on.

What that Locks gave back since stands there again, and belongs to a lease that it keeps alive. Here
are also machines that are woken up twice.
"""

from __future__ import annotations

from copy import deepcopy

import pytest

from locknut.backends.etcd.backend import EtcdBackend
from locknut.core.values import Busy, Claim, Granted, Mode, Renewal
from locknut.drivers.etcd.requests import Put
from locknut.runtimes.threads import ThreadRuntime, run
from tests.backends.etcd.conftest import claim
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine


@pytest.fixture
def cluster() -> LocalCluster:
    return LocalCluster()


def backend(cluster: LocalCluster) -> EtcdBackend:
    return LocalEngine(cluster).blocking(ThreadRuntime())


class Backup:
    """All that the cluster has agreed on until now."""

    def __init__(self, cluster: LocalCluster):
        self._store = cluster.store
        self._keys, self._leases = dict(self._store.keys), dict(self._store.leases)
        self._revision = self._store.revision

    def restore(self) -> None:
        self._store.keys, self._store.leases = dict(self._keys), dict(self._leases)
        self._store.revision = self._revision
        self._store.compact()


def reader(*, waits: bool = True) -> Claim:
    return claim(mode=Mode.SHARED, waits=waits)


def is_granted(port: EtcdBackend, wanted: Claim) -> bool:
    return isinstance(run(port.attempt(wanted, 0.0)), Granted)


@pytest.mark.parametrize("waits", [True, False])
def test_a_writer_does_not_hold_by_the_key_of_a_reader_that_has_gone(
    cluster: LocalCluster, waits: bool
) -> None:
    """It was given the name of that key. By what stands there other readers would come in."""
    port, other, before, writer = backend(cluster), backend(cluster), reader(), claim(waits=waits)
    assert is_granted(port, before)
    backup = Backup(cluster)
    assert run(port.release(before))
    backup.restore()
    assert not is_granted(port, writer)
    assert is_granted(port, beside := reader(waits=False)) != waits, "who waits is before it"
    assert not run(port.release(writer))
    assert run(port.release(beside)) != waits
    cluster.store.revoke(port.shared.id)
    assert is_granted(other, claim(waits=False)), "what stood there again goes with its Locks"


@pytest.mark.parametrize("mode", [Mode.EXCLUSIVE, Mode.SHARED])
def test_nor_do_several_at_once(cluster: LocalCluster, mode: Mode) -> None:
    port = backend(cluster)
    before = [reader()._replace(key=f"locknut:{name}") for name in "xy"]
    assert isinstance(run(port.attempt_all(before)), list)
    backup = Backup(cluster)
    assert run(port.release_all(before)) == [True, True]
    backup.restore()
    after = [claim(name, mode=mode) for name in "xy"]
    granted = mode is Mode.SHARED
    assert isinstance(run(port.attempt_all(after)), list) == granted
    assert list(run(port.renew(after))) == [Renewal.HELD if granted else Renewal.LOST] * 2
    assert run(port.release_all(after)) == [granted, granted]


@pytest.mark.parametrize("ask", ["one", "one that does not wait", "several"])
def test_a_machine_that_is_woken_up_twice_from_one_snapshot_holds_once(
    cluster: LocalCluster, ask: str
) -> None:
    """Both have the same lease, and the same names to give away."""
    port, twin = backend(cluster), backend(cluster)
    assert is_granted(port, before := claim())
    assert run(port.release(before))
    twin.shared.session = port.shared.session
    twin.shared.proof = deepcopy(port.shared.proof)
    twin.shared.spare = deepcopy(port.shared.spare)
    assert is_granted(port, held := claim())
    if ask == "several":
        assert isinstance(run(twin.attempt_all([claim()])), Busy)
    else:
        assert not is_granted(twin, claim(waits=ask == "one"))
    assert list(run(port.renew([held]))) == [Renewal.HELD]
    assert run(port.release(held))


def put_session_key_again(port: EtcdBackend, cluster: LocalCluster) -> None:
    lease, key, _ = port.shared.session
    done = cluster.store.transact([], [Put(key, b"", lease)], [])
    port.shared.stamped(lease, done.revision)


@pytest.mark.parametrize("ask", ["one", "one that does not wait", "several", "attach", "keeper"])
def test_a_session_key_that_went_back_keeps_nobody_out(cluster: LocalCluster, ask: str) -> None:
    """It had been put again since the backup: what we compare with was never true there. The lease
    is left, and with it goes what stands there again.
    """
    port, other, held, gone = backend(cluster), backend(cluster), claim("held"), claim("gone")
    assert is_granted(port, held)
    assert is_granted(port, gone)
    if ask == "attach":
        assert run(port.detach(held, 30.0))
    backup = Backup(cluster)
    put_session_key_again(port, cluster)
    assert run(port.release(gone))
    backup.restore()
    lease, told = port.shared.id, list[object]()
    port.listen(lambda claim_id, what: told.append((claim_id, what)))
    if ask == "several":
        answer = run(port.attempt_all([claim("a"), claim("b")]))
        assert isinstance(answer, list)
    elif ask == "attach":
        assert isinstance(run(port.attach(held, claim("held"))), Granted)
    elif ask == "keeper":
        run(port.lease_aside())
        assert port.shared.aside is not None
        port.shared.aside = port.shared.aside._replace(until=float("-inf"))
        port.shared.hurry()
        assert list(run(port.renew([held]))) == [Renewal.UNKNOWN]
    else:
        assert is_granted(port, claim(waits=ask == "one"))
    assert port.shared.id != lease
    assert told == [(None, Renewal.LOST)], "whoever holds something is told"
    now = cluster.now()
    cluster.now = lambda: now + 11.0
    assert is_granted(other, claim("gone", waits=False)), "nobody keeps that lease alive"


def test_a_stamp_that_another_thread_has_seen_first_is_no_older_state(
    cluster: LocalCluster,
) -> None:
    """What was asked before the key was put again is answered by what it said then."""
    port, held = backend(cluster), claim("held")
    assert is_granted(port, held)
    lease, _, stamp = port.shared.session
    put_session_key_again(port, cluster)
    port.stamped(lease, stamp, stamp)
    assert port.shared.id == lease
    assert port.shared.session.stamp > stamp
    assert list(run(port.renew([held]))) == [Renewal.HELD]
    assert isinstance(run(port.attempt(claim("held", waits=False), 0.0)), Busy)
