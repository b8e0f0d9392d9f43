"""What a URL says, what a ttl may be, and whose rights are enough."""

from __future__ import annotations

import math

import pytest

import locknut
from locknut.backends.etcd import settings
from locknut.core.values import Granted
from locknut.errors import ConfigurationError
from locknut.runtimes.threads import ThreadRuntime, run
from locknut.urls import parse
from tests.backends.etcd.conftest import PATIENCE, claim
from tests.backends.etcd.local_engine import LocalCluster, LocalEngine
from tests.servers.etcd import EtcdServer


def read(url: str) -> settings.Settings:
    return settings.from_url(parse(url))


def test_what_a_url_says() -> None:
    found = read("etcd://user:pass%2Fword@e1,e2:2222,[::1]/my/app/")
    assert found.driver.hosts == (("e1", 2379), ("e2", 2222), ("::1", 2379))
    assert (found.driver.username, found.driver.password) == ("user", "pass/word")
    assert found.root == b"my/app/"
    assert found.session_ttl == 10
    assert found.driver.limit == found.driver.connect_limit == 2
    assert found.driver.tls is None
    assert read("etcd://e1").root == b""
    assert read("etcd://e1/50%2541%20%C3%A9").root == "50%41 \u00e9/".encode(), "decoded once"
    other = read("etcd+tls://e1/a?session_ttl=1m&socket_timeout=3&ssl_check_hostname=false")
    assert (other.session_ttl, other.driver.limit) == (60, 3)
    assert other.driver.tls is not None
    assert not other.driver.tls.check_hostname
    assert other.driver.tls.verify_mode.name == "CERT_REQUIRED"
    assert "pass" not in repr(found) + found.place


@pytest.mark.parametrize(
    "options", ["session_ttl=1", "session_ttl=2h", "session_ttl=never", "lease=5", "ssl_keyfile=x"]
)
def test_wrong_addresses_are_refused(options: str) -> None:
    with pytest.raises(ConfigurationError):
        read(f"etcd://e1?{options}")


def test_what_a_ttl_may_be() -> None:
    port = LocalEngine(LocalCluster(), session_ttl=8).blocking(ThreadRuntime())
    assert port.max_ttl == port.default_ttl == 6
    assert port.max_detached_ttl == 30 * 86400
    granted = run(port.attempt(claim(), 0.0))
    assert isinstance(granted, Granted)
    assert granted.ttl == 6
    assert granted.until is not None
    assert 6 < granted.until - port.now() < 8
    with locknut.connect("etcd://e1?session_ttl=8") as locks:
        with pytest.raises(ConfigurationError, match="ttl must be between"):
            locks.lock("x", ttl=7)
        locks.lock("x", ttl=1, max_hold=100)


@pytest.mark.parametrize("granted", [1, 3, 30])
def test_what_the_cluster_grants_counts_and_never_more_than_was_asked(
    granted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member may grant more by its own settings, and another one may lead next."""
    cluster = LocalCluster()
    grant = cluster.store.grant
    monkeypatch.setattr(cluster.store, "grant", lambda _, lease: grant(granted, lease))
    cluster.store._least_ttl = 0
    port = LocalEngine(cluster, session_ttl=8).blocking(ThreadRuntime())
    run(port.attempt(claim(), 0.0))
    assert math.isclose(port.shared.proof.ttl, min(granted, 8))


def test_an_idle_one_keeps_no_lease_alive() -> None:
    cluster = LocalCluster()
    port = LocalEngine(cluster).blocking(ThreadRuntime())
    run(port.attempt(first := claim(), 0.0))
    run(port.release(first))
    lease = port.shared.id
    now = cluster.now()
    port.now = cluster.now = lambda: now + 11.0
    asked = cluster.asked
    run(port.attempt(claim(), 0.0))
    assert port.shared.id != lease
    assert cluster.asked == asked + 3, "a lease, its key, and ours"


@pytest.mark.etcd
def test_a_role_on_the_prefix_is_enough(etcd_login_server: EtcdServer) -> None:
    server = etcd_login_server
    server.etcdctl("role", "add", "jobs")
    server.etcdctl("role", "grant-permission", "jobs", "readwrite", "--prefix", "mine/")
    server.etcdctl("user", "add", "worker:secret")
    server.etcdctl("user", "grant-role", "worker", "jobs")
    with locknut.connect(f"etcd://worker:secret@{server.address}/mine") as locks:
        with locks.lock("x", timeout=PATIENCE), locks.semaphore("x", 2, timeout=PATIENCE):
            assert len(locks.list()) == 1
        lease = locks.lock("x").acquire()
        assert lease is not None
        locks.attach(lease.detach()).release()
        assert not locks.list()
    with (
        locknut.connect(f"etcd://worker:secret@{server.address}/others") as locks,
        pytest.raises(ConfigurationError, match="lacks a right"),
    ):
        locks.lock("x").acquire()
