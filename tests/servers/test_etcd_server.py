"""The private etcd serves, comes back with its data, elects a new leader, and goes."""

from __future__ import annotations

import pytest

from tests.servers.certificates import Certificates
from tests.servers.etcd import EtcdCluster, EtcdServer
from tests.servers.processes import exists, until

pytestmark = pytest.mark.etcd


def test_it_serves_and_leaves_no_process(etcd_server: EtcdServer) -> None:
    assert etcd_server.leads
    assert etcd_server.etcdctl("put", "here", "1").strip() == "OK"
    with EtcdServer() as other:
        pid = other.pid
    assert not exists(pid)
    assert not other.folder.exists()


def test_a_newer_one_serves(etcd35_server: EtcdServer) -> None:
    assert etcd35_server.ask("/version")["etcdserver"] >= "3.5"
    assert etcd35_server.etcdctl("put", "here", "1").strip() == "OK"


def test_data_and_address_stay_over_a_restart() -> None:
    with EtcdServer() as server:
        server.etcdctl("put", "kept", "1")
        server.restart()
        assert server.etcdctl("get", "kept").split() == ["kept", "1"]


def test_a_login_is_required(etcd_login_server: EtcdServer) -> None:
    assert etcd_login_server.etcdctl("put", "here", "1").strip() == "OK"
    other = EtcdServer(login="root:wrong")
    other.port = etcd_login_server.port
    assert other.etcdctl("put", "here", "1", check=False) == ""
    other.close()


def test_it_speaks_tls(etcd_tls_server: EtcdServer, certificates: Certificates) -> None:
    assert etcd_tls_server.etcdctl("put", "here", "1").strip() == "OK"
    with EtcdServer(certificates=certificates, wants_certificates=True) as careful:
        assert careful.etcdctl("put", "here", "1").strip() == "OK"


@pytest.mark.slow
def test_without_its_leader_a_cluster_chooses_another(etcd_cluster: EtcdCluster) -> None:
    first = etcd_cluster.leader
    assert len(etcd_cluster.followers) == 2
    first.kill()
    until(lambda: etcd_cluster.leader is not first, "another one leads")
    etcd_cluster.wait_until_whole()
    etcd_cluster.make_leader(first)
    assert first not in etcd_cluster.followers


def test_a_leader_that_is_cut_off_is_succeeded_and_comes_back(etcd_cluster: EtcdCluster) -> None:
    """Clients reach it all the time: it answers who asks it for its state."""
    old = etcd_cluster.leader
    others = etcd_cluster.followers
    etcd_cluster.cut_off(old)
    until(lambda: any(other.leads for other in others), "another one leads")
    until(lambda: not old.leads, "the old leader has noticed")
    others[0].etcdctl("put", "meanwhile", "1")
    etcd_cluster.heal()
    until(lambda: old.etcdctl("get", "meanwhile", check=False).split(), "it knows what was missed")
