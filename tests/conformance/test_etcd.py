"""The etcd engine keeps the contract, in both colours, on one member and on three."""

from __future__ import annotations

import pytest

import locknut
from locknut import Capability
from locknut.testing.conformance import Conformance
from locknut.testing.conformance.mutual_exclusion import MutualExclusion
from locknut.testing.conformance.port_rules import PortRules
from tests.conformance.selections import EVERY_VERB
from tests.servers.etcd import EtcdCluster, EtcdServer


@pytest.mark.etcd
class TestEtcd(Conformance):
    @pytest.fixture
    def engine_url(self, etcd_server: EtcdServer) -> str:
        return f"{etcd_server.url}/conformance"


@pytest.mark.etcd
class TestCluster(Conformance):
    """Clients begin at the first member, which may lead or follow."""

    quick = EVERY_VERB

    @pytest.fixture
    def engine_url(self, etcd_cluster: EtcdCluster) -> str:
        return f"{etcd_cluster.url}/conformance"


@pytest.mark.etcd
class TestNewer(MutualExclusion, PortRules):
    @pytest.fixture
    def engine_url(self, etcd35_server: EtcdServer) -> str:
        return etcd35_server.url


@pytest.mark.etcd
class TestLogin(MutualExclusion, PortRules):
    """A login is a part of every question."""

    @pytest.fixture
    def engine_url(self, etcd_login_server: EtcdServer) -> str:
        return etcd_login_server.url


@pytest.mark.etcd
class TestTls(MutualExclusion, PortRules):
    @pytest.fixture
    def engine_url(self, etcd_tls_server: EtcdServer) -> str:
        return etcd_tls_server.url


@pytest.mark.etcd
def test_what_it_declares(etcd_server: EtcdServer) -> None:
    """Pinned, because what is not declared is not tested."""
    lacks = {Capability.LEASE, Capability.OWNERS, Capability.HISTORY}
    with locknut.connect(etcd_server.url) as locks:
        assert set(Capability) - locks.capabilities == lacks | {Capability.REPLICATED}
    with locknut.connect("etcd://a,b,c") as locks:
        assert set(Capability) - locks.capabilities == lacks
