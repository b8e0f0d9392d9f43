"""The ZooKeeper engine keeps the contract, in both colours, on one server and on an ensemble."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.testing.conformance.port_rules import PortRules
from tests.conformance.selections import EVERY_VERB
from tests.servers.certificates import Certificates
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer


@pytest.mark.zookeeper
class TestZooKeeper(Conformance):
    @pytest.fixture
    def engine_url(self, zookeeper_server: ZooKeeperServer) -> str:
        return f"{zookeeper_server.url}/conformance"


@pytest.mark.zookeeper
class TestEnsemble(Conformance):
    """`port` and every client of a test is at another server, as chance has it, and servers are
    behind each other.
    """

    quick = EVERY_VERB

    @pytest.fixture
    def engine_url(self, zookeeper_ensemble: ZooKeeperEnsemble) -> str:
        return f"{zookeeper_ensemble.url}/conformance"


@pytest.mark.zookeeper
class TestTls(MutualExclusion, PortRules):
    """What goes over another way to the server: with TLS kazoo's thread sends and reads alone."""

    @pytest.fixture
    def engine_url(self, zookeeper_tls_server: ZooKeeperServer, certificates: Certificates) -> str:
        return f"{zookeeper_tls_server.url}/conformance?ssl_ca_certs={certificates.authority}"


@pytest.mark.zookeeper
def test_what_it_declares(zookeeper_server: ZooKeeperServer) -> None:
    """Pinned, because what is not declared is not tested."""
    lacks = {Capability.LEASE, Capability.HISTORY}
    with locknut.connect(zookeeper_server.url) as locks:
        assert set(Capability) - locks.capabilities == lacks | {Capability.REPLICATED}
    with locknut.connect("zookeeper://a,b,c") as locks:
        assert set(Capability) - locks.capabilities == lacks
