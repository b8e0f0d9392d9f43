"""One place of each engine for `scale`, with what its server says of itself: requests, bytes, CPU.

Requests are those that clients sent, as the server counts them, without our own questions. Bytes
are what the engine stores, in memory or on a disk. Where there is no server, the client does all of
it, and there are no requests.
"""

from __future__ import annotations

import http.client
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.redis_serving import calls
from tests.servers.etcd import EtcdServer
from tests.servers.memcached import MemcachedServer
from tests.servers.mysql import MariaServer
from tests.servers.postgresql import PostgresServer
from tests.servers.redis import RedisServer
from tests.servers.redlock import RedlockNodes
from tests.servers.zookeeper import ZooKeeperServer

TTL = 15.0
_TICK = os.sysconf("SC_CLK_TCK")
_SENT = frozenset({"evalsha", "eval", "blpop", "ping", "hello", "subscribe", "publish", "scan"})
"""What clients send to a Redis; the rest is what scripts call inside of it."""


@dataclass
class Place:
    """Where the locks of one engine live."""

    url: str
    stored: Callable[[], float] = lambda: 0.0
    """Bytes."""
    requests: Callable[[], float] | None = None
    """From the start of the server; None without a server."""
    pids: Callable[[], list[int]] = list
    ttl: float | None = TTL
    """What locks are asked for; None: the engine has none, or one for the whole session."""
    shape: str = "processes"
    """How several clients reach it."""
    settles: float = 0.0
    """After so many seconds the server has counted what was asked of it."""
    version: str = ""

    def cpu(self) -> float:
        """Seconds of processor that the server has used, with all its processes."""
        return sum(_cpu(pid) for pid in self.pids())


def _cpu(pid: int) -> float:
    """Of all its threads, of those of its children, and of children that are gone."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # gone meanwhile: its parent has counted it
        return 0.0
    return sum(map(int, told[11:15])) / _TICK + sum(_cpu(int(child)) for child in children)


def _size(folder: Path) -> float:
    """What the disk gives for these files: blocks, not what is written in them."""
    found = 0
    for each in folder.rglob("*"):
        try:
            found += each.lstat().st_blocks * 512
        except OSError:  # removed while we looked
            continue
    return found


def _but_ours(told: Callable[[], float]) -> Callable[[], float]:
    """For a server that counts the question as well: what one costs is taken off, each time."""
    first = told()
    of_asking = told() - first
    asked = 0

    def requests() -> float:
        nonlocal asked
        asked += 1
        return told() - asked * of_asking

    return requests


@contextmanager
def memory() -> Iterator[Place]:
    yield Place("memory:", shape="threads")


@contextmanager
def file() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="locknut-scale-") as folder:
        stored = partial(_size, Path(folder))
        yield Place(f"file://{folder}/locks", stored, ttl=None)


@contextmanager
def sqlite() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="locknut-scale-") as folder:
        yield Place(f"sqlite://{folder}/locks.db", partial(_size, Path(folder)))


def _redis_requests(server: RedisServer) -> int:
    return sum(count for name, count in calls(server).items() if name.split("|")[0] in _SENT)


def _redis_bytes(server: RedisServer) -> float:
    return float(server.info("memory")["used_memory"])


@contextmanager
def redis() -> Iterator[Place]:
    with RedisServer() as server:
        yield Place(
            server.url,
            lambda: _redis_bytes(server),
            lambda: _redis_requests(server),
            lambda: [server.pid],
            version=server.info()["redis_version"],
        )


@contextmanager
def redlock() -> Iterator[Place]:
    """Five nodes; what they use is added up."""
    with RedlockNodes() as five:
        yield Place(
            five.url,
            lambda: sum(map(_redis_bytes, five.nodes)),
            lambda: sum(map(_redis_requests, five.nodes)),
            lambda: [node.pid for node in five.nodes],
            version=five.nodes[0].info()["redis_version"],
        )


@contextmanager
def memcached() -> Iterator[Place]:
    with MemcachedServer("-m", "1024") as server:
        server.wait_until_old_enough()

        def requests() -> float:
            told = server.stats()
            return sum(int(value) for name, value in told.items() if name.startswith("cmd_"))

        yield Place(
            server.url,
            lambda: float(server.stats()["bytes"]),
            requests,
            lambda: [server.pid],
            version=server.stats()["version"],
        )


@contextmanager
def postgresql() -> Iterator[Place]:
    """Without waiting for the disk: what is counted does not depend on it."""
    with PostgresServer() as server, server.database() as database:

        def ask(sql: str) -> float:
            return float(str(server.ask(sql)[0][0]))

        yield Place(
            database.url,
            lambda: ask(f"SELECT pg_database_size('{database.name}')"),
            lambda: ask(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database "  # noqa: S608  # ours
                f"WHERE datname = '{database.name}'"
            ),
            lambda: [server.pid],
            settles=11.0,  # a session that is idle tells its counts after ten
            version=str(server.ask("SHOW server_version")[0][0]),
        )


@contextmanager
def mysql() -> Iterator[Place]:
    with MariaServer() as server, server.database() as database:

        def told() -> float:
            return float(str(server.ask("SHOW GLOBAL STATUS LIKE 'Questions'")[0][1]))

        yield Place(
            database.url,
            lambda: _size(server.data / database.name),
            _but_ours(told),
            lambda: [server.pid],
            version=str(server.ask("SELECT VERSION()")[0][0]),
        )


@contextmanager
def etcd() -> Iterator[Place]:
    with EtcdServer() as server:

        def metrics() -> dict[str, float]:
            connected = http.client.HTTPConnection(server.host, server.port, timeout=10)
            connected.request("GET", "/metrics")
            lines = connected.getresponse().read().decode().splitlines()
            connected.close()
            found: dict[str, float] = {}
            for line in lines:
                if not line.startswith("#"):
                    name, _, value = line.rpartition(" ")
                    family = name.partition("{")[0]
                    found[family] = found.get(family, 0.0) + float(value)
            return found

        yield Place(
            server.url,
            lambda: metrics()["etcd_mvcc_db_total_size_in_use_in_bytes"],
            lambda: metrics()["grpc_server_msg_received_total"],
            lambda: [server.pid],
            ttl=None,
            version=server.etcdctl("version").split()[2],
        )


@contextmanager
def zookeeper() -> Iterator[Place]:
    with ZooKeeperServer() as server:

        def told(name: str) -> str:
            lines = [line.split("\t") for line in server.command("mntr").splitlines()]
            return {line[0]: line[1] for line in lines if len(line) == 2}[name]

        yield Place(
            server.url,
            lambda: float(told("zk_approximate_data_size")),
            _but_ours(lambda: float(told("zk_packets_received"))),
            lambda: [server.pid],
            ttl=None,
            version=told("zk_version").partition("-")[0],
        )


PLACES = {
    each.__name__: each
    for each in (
        *(memory, file, sqlite, redis, redlock, memcached),
        *(postgresql, mysql, etcd, zookeeper),
    )
}
