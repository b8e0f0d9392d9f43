"""What `doctor` finds at an etcd that is set up just so."""

from __future__ import annotations

import pytest

from tests.checkups import FAIL, OK, UNKNOWN, WARN, examine
from tests.servers.etcd import EtcdCluster, EtcdServer
from tests.servers.rewriting import Rewriting

pytestmark = pytest.mark.etcd
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@both_colours
def test_a_cluster_as_it_should_be(etcd_cluster: EtcdCluster, colour: str) -> None:
    found = examine(etcd_cluster.url, colour)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 6


@both_colours
def test_one_member_alone(etcd_server: EtcdServer, colour: str) -> None:
    found = examine(etcd_server.url, colour)
    assert found["etcd-members"].severity is WARN
    assert "one member" in found["etcd-members"].found
    assert found["etcd-version"].severity is OK


@pytest.mark.parametrize(
    ("version", "severity"), [("3.5.00", FAIL), ("3.5.02", FAIL), ("3.5.03", OK), ("3.3.99", FAIL)]
)
def test_the_version(etcd_server: EtcdServer, version: str, severity: str) -> None:
    told = etcd_server.ask("/v3/maintenance/status", {})["version"].encode()
    assert len(told) == len(version)
    with Rewriting((etcd_server.host, etcd_server.port), told, version.encode()) as proxy:
        finding = examine(etcd_server.url_through(proxy.port))["etcd-version"]
    assert finding.severity == severity


@both_colours
def test_a_newer_one(etcd35_server: EtcdServer, colour: str) -> None:
    found = examine(etcd35_server.url, colour)
    assert found["etcd-version"].severity is found["etcd-alarms"].severity is OK


@both_colours
@pytest.mark.faults
@pytest.mark.slow
def test_members_that_are_gone(etcd_cluster: EtcdCluster, colour: str) -> None:
    second, third = etcd_cluster.followers
    third.stop()
    try:
        one_less = examine(etcd_cluster.url, colour)
        second.stop()
        too_few = examine(etcd_cluster.url, colour, timeout=30)
    finally:
        for member in (second, third):
            member.cont()
        etcd_cluster.wait_until_whole()
    assert one_less["etcd-members"].severity is WARN
    assert third.address in one_less["etcd-members"].found
    assert too_few["reachable"].severity is FAIL
    assert too_few["etcd-members"].severity is FAIL


@both_colours
def test_hosts_of_two_clusters(
    etcd_server: EtcdServer, etcd35_server: EtcdServer, colour: str
) -> None:
    found = examine(f"etcd://{etcd_server.address},{etcd35_server.address}", colour)
    assert found["etcd-members"].severity is FAIL
    assert "different clusters" in found["etcd-members"].found


def test_a_cluster_without_space() -> None:
    with EtcdServer(f"--quota-backend-bytes={256 * 1024}") as full:
        while "NOSPACE" not in full.etcdctl("alarm", "list"):
            full.etcdctl("put", "filler", "x" * 50_000, check=False)
        found = examine(full.url)
    assert found["etcd-alarms"].severity is FAIL
    assert "NOSPACE" in found["etcd-alarms"].found
    assert found["usable"].severity is FAIL or found["reachable"].severity is FAIL


def test_a_member_that_is_corrupt() -> None:
    """The alarm that a member raises about another one, raised by hand."""
    with EtcdServer() as server:
        alarm: dict[str, object] = {
            "action": "ACTIVATE",
            "memberID": str(server.id),
            "alarm": "CORRUPT",
        }
        server.ask("/v3/maintenance/alarm", alarm)
        assert "CORRUPT" in server.etcdctl("alarm", "list", check=False)
        finding = examine(server.url)["etcd-alarms"]
    assert finding.severity is FAIL
    assert "Take the corrupt member out" in finding.advice


class Learner(EtcdServer):
    """A member that has no vote yet; asked for its health, it says that it may not tell."""

    def _answers(self) -> bool:
        return bool(self.ask("/v3/maintenance/status", {}).get("isLearner"))


@both_colours
def test_a_member_that_has_no_vote(colour: str) -> None:
    with EtcdServer() as first:
        learner = Learner("--initial-cluster-state=existing", number=1)
        learner.choose_ports()
        learner.peers = (first.peer_port, learner.peer_port)
        peer = f"http://{learner.host}:{learner.peer_port}"
        first.etcdctl("member", "add", "n1", "--learner", f"--peer-urls={peer}")
        with learner:
            finding = examine(f"etcd://{first.address},{learner.address}", colour)["etcd-members"]
    assert finding.severity is WARN
    assert "learner" in finding.found


def test_a_user_who_may_ask_little(etcd_login_server: EtcdServer) -> None:
    server = etcd_login_server
    server.etcdctl("user", "add", "few:pw")
    server.etcdctl("role", "add", "few")
    server.etcdctl("role", "grant-permission", "few", "--prefix=true", "readwrite", "locknut/")
    server.etcdctl("user", "grant-role", "few", "few")
    found = examine(f"etcd://few:pw@{server.address}")
    assert found["usable"].severity is OK
    assert found["etcd-version"].severity is OK
    assert found["etcd-alarms"].severity in {OK, UNKNOWN}
