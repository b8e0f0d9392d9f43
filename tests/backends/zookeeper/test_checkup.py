"""What `doctor` finds at a ZooKeeper that is set up just so."""

from __future__ import annotations

import pytest

from tests.checkups import FAIL, OK, UNKNOWN, WARN, examine
from tests.servers.certificates import Certificates
from tests.servers.processes import until
from tests.servers.rewriting import Rewriting
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

pytestmark = pytest.mark.zookeeper
both_colours = pytest.mark.parametrize("colour", ["blocking", "asyncio"])


@both_colours
def test_an_ensemble_as_it_should_be(zookeeper_ensemble: ZooKeeperEnsemble, colour: str) -> None:
    found = examine(zookeeper_ensemble.url, colour)
    assert {each.severity for each in found.values()} == {OK}, found
    assert len(found) == 6


@both_colours
def test_one_server_alone(zookeeper_server: ZooKeeperServer, colour: str) -> None:
    found = examine(zookeeper_server.url, colour)
    assert found["zookeeper-servers"].severity is WARN
    assert "alone" in found["zookeeper-servers"].found
    assert found["zookeeper-version"].severity is found["zookeeper-session"].severity is OK


def test_the_version(zookeeper_server: ZooKeeperServer) -> None:
    told = zookeeper_server.command("srvr").partition("Zookeeper version: ")[2][:3].encode()
    old = b"Zookeeper version: " + told
    target = zookeeper_server.host, zookeeper_server.port
    with Rewriting(target, old, b"Zookeeper version: 3.4") as proxy:
        finding = examine(f"zookeeper://127.0.0.1:{proxy.port}")["zookeeper-version"]
    assert finding.severity is FAIL
    assert "ZooKeeper 3.4" in finding.found


@pytest.mark.slow
@both_colours
def test_servers_that_grant_shorter_sessions(colour: str) -> None:
    with ZooKeeperServer(longest_session=4000) as hasty:
        finding = examine(hasty.url, colour)["zookeeper-session"]
        assert finding.severity is WARN
        assert "4 s" in finding.found
        fitting = examine(f"{hasty.url}?session_timeout=4", colour)["zookeeper-session"]
        assert fitting.severity is OK


def test_by_tls_there_are_no_words(
    zookeeper_tls_server: ZooKeeperServer, certificates: Certificates
) -> None:
    authority = certificates.authority
    url = f"{zookeeper_tls_server.url}?ssl_ca_certs={authority}"
    until(lambda: examine(url)["usable"].severity is OK, "it serves")
    found = examine(url)
    assert found["zookeeper-servers"].severity is UNKNOWN


@both_colours
@pytest.mark.faults
@pytest.mark.slow
def test_servers_that_are_gone(zookeeper_ensemble: ZooKeeperEnsemble, colour: str) -> None:
    _, second, third = zookeeper_ensemble.servers
    third.kill()
    try:
        one_less = examine(zookeeper_ensemble.url, colour)
        second.kill()
        too_few = examine(zookeeper_ensemble.url, colour, timeout=15)
    finally:
        zookeeper_ensemble.wait_until_whole()
    assert one_less["zookeeper-servers"].severity is WARN
    assert str(third.port) in one_less["zookeeper-servers"].found
    assert one_less["usable"].severity is OK
    assert too_few["reachable"].severity is FAIL
    assert too_few["zookeeper-servers"].severity is FAIL
