"""The private ZooKeeper serves, comes back with its data, elects a new leader, and goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient

from tests.servers.processes import exists, until
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

pytestmark = pytest.mark.zookeeper


@contextmanager
def client(hosts: str) -> Iterator[KazooClient]:
    connected = KazooClient(hosts, timeout=5)
    connected.start(20)
    try:
        yield connected
    finally:
        connected.stop()
        connected.close()


def test_it_serves_and_leaves_no_process(zookeeper_server: ZooKeeperServer) -> None:
    assert zookeeper_server.mode == "standalone"
    with client(zookeeper_server.address) as connected:
        connected.create("/here", b"1", ephemeral=True)
    with ZooKeeperServer() as other:
        pid = other.process.pid
    assert not exists(pid)
    assert not other.folder.exists()


@pytest.mark.slow
def test_data_and_address_stay_over_a_restart() -> None:
    with ZooKeeperServer() as server:
        with client(server.address) as connected:
            connected.create("/kept", b"1")
        server.restart()
        with client(server.address) as connected:
            assert connected.get("/kept")[0] == b"1"


@pytest.mark.slow
def test_without_its_leader_an_ensemble_chooses_another(
    zookeeper_ensemble: ZooKeeperEnsemble,
) -> None:
    first = zookeeper_ensemble.leader
    assert len(zookeeper_ensemble.followers) == 2
    first.kill()
    until(lambda: zookeeper_ensemble.leader is not first, "another one leads")
    zookeeper_ensemble.wait_until_whole()
    assert len(zookeeper_ensemble.followers) == 2
