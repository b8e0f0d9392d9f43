"""The private servers as fixtures: one of each kind per session, started when first asked for.

What is several servers ends with its file: they speak with each other whether or not a test does
(Sentinels take 3 % of a processor, an ensemble 2 %), and each worker would have its own to the end.

A test that kills, stops or restarts one must leave it running; one that needs a server for itself
makes it: `with RedisServer() as server:`.
"""

from __future__ import annotations

from collections.abc import Iterator
from unittest import SkipTest

import pytest

from tests.servers.certificates import Certificates, make_certificates
from tests.servers.cluster import RedisCluster
from tests.servers.databases import Database
from tests.servers.etcd import EtcdCluster, EtcdServer
from tests.servers.firebird import FirebirdServer
from tests.servers.memcached import MemcachedServer
from tests.servers.mysql import MariaServer, MySqlServer
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgresql import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.sentinel import SentinelService
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """A plain one; whatever a test does to its data is its own business, so use your own names."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis_unix_server() -> Iterator[RedisServer]:
    with RedisServer(unix=True) as server:
        yield server


@pytest.fixture(scope="session")
def redis_password_server() -> Iterator[RedisServer]:
    with RedisServer(password="s3cret/@:?#%") as server:
        yield server


@pytest.fixture(scope="session")
def redis_tls_server(certificates: Certificates) -> Iterator[RedisServer]:
    with RedisServer(certificates=certificates, password="s3cret") as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[RedisServer]:
    with RedisServer(flavour="valkey") as server:
        yield server


@pytest.fixture(scope="session")
def redis6_server() -> Iterator[RedisServer]:
    """The oldest Redis that is supported, where one can be had."""
    try:
        server = RedisServer(flavour="redis6").start()
    except SkipTest as missing:
        pytest.skip(f"needs Redis 6.2: {missing}")
    with server:
        yield server


@pytest.fixture(scope="module")
def redis_sentinel() -> Iterator[SentinelService]:
    with SentinelService() as service:
        yield service


@pytest.fixture(scope="module")
def redis_cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def redlock_nodes() -> Iterator[RedlockNodes]:
    with RedlockNodes() as nodes:
        yield nodes


@pytest.fixture(scope="session")
def zookeeper_server() -> Iterator[ZooKeeperServer]:
    """A plain one; use your own names."""
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper_tls_server(certificates: Certificates) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(certificates=certificates) as server:
        yield server


@pytest.fixture(scope="module")
def zookeeper_ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble() as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresServer]:
    """A plain one, as the next two: every test has a database of its own there."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaServer]:
    with MariaServer() as server:
        yield server


@pytest.fixture(scope="session")
def mysql_server() -> Iterator[MySqlServer]:
    with MySqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def firebird_server() -> Iterator[FirebirdServer]:
    with FirebirdServer() as server:
        yield server


@pytest.fixture
def postgresql_database(postgresql_server: PostgresServer) -> Iterator[Database]:
    with postgresql_server.database() as database:
        yield database


@pytest.fixture
def mariadb_database(mariadb_server: MariaServer) -> Iterator[Database]:
    with mariadb_server.database() as database:
        yield database


@pytest.fixture
def mysql_database(mysql_server: MySqlServer) -> Iterator[Database]:
    with mysql_server.database() as database:
        yield database


@pytest.fixture(scope="session")
def postgresql_tls_server(certificates: Certificates) -> Iterator[PostgresServer]:
    with PostgresServer(certificates=certificates) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_tls_server(certificates: Certificates) -> Iterator[MariaServer]:
    with MariaServer(certificates=certificates) as server:
        yield server


@pytest.fixture(scope="session")
def mysql_tls_server(certificates: Certificates) -> Iterator[MySqlServer]:
    with MySqlServer(certificates=certificates) as server:
        yield server


@pytest.fixture(scope="session")
def pgbouncer(postgresql_server: PostgresServer) -> Iterator[PgBouncer]:
    """Before that server, with a pool for transactions."""
    with PgBouncer(postgresql_server) as pool:
        yield pool


@pytest.fixture(scope="session")
def memcached_server() -> Iterator[MemcachedServer]:
    """A plain one, old enough to give locks out."""
    with MemcachedServer() as server:
        server.wait_until_old_enough()
        yield server


@pytest.fixture(scope="session")
def etcd_server() -> Iterator[EtcdServer]:
    """A plain one; use your own names."""
    with EtcdServer() as server:
        yield server


@pytest.fixture(scope="session")
def etcd35_server() -> Iterator[EtcdServer]:
    """A newer one, where one can be had."""
    try:
        server = EtcdServer(flavour="etcd35").start()
    except SkipTest as missing:
        pytest.skip(f"needs etcd 3.5: {missing}")
    with server:
        yield server


@pytest.fixture(scope="session")
def etcd_login_server() -> Iterator[EtcdServer]:
    """Its `url` has the login of somebody who may do everything."""
    with EtcdServer() as server:
        server.require_login("root:s3cret")
        yield server


@pytest.fixture(scope="session")
def etcd_tls_server(certificates: Certificates) -> Iterator[EtcdServer]:
    with EtcdServer(certificates=certificates) as server:
        yield server


@pytest.fixture(scope="module")
def etcd_cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster
