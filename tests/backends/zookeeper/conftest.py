"""What the tests of the ZooKeeper engine share: addresses, claims, kazoo beside us, patience."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from locknut.backends.zookeeper.engine import ZooKeeperEngine
from locknut.core.values import Claim
from locknut.runtimes.threads import ThreadSignal
from locknut.urls import open_engine
from tests.servers.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

PATIENCE = 30.0


def eventually(check: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    """Look until it is so."""
    give_up = time.monotonic() + patience
    while not check():
        assert time.monotonic() < give_up, what
        time.sleep(0.01)


def engine(url: str) -> ZooKeeperEngine:
    found = open_engine(url)[0]
    assert isinstance(found, ZooKeeperEngine)
    return found


def claim(name: str = "x", **facts: Any) -> Claim:
    return Claim(f"t:{name}", secrets.token_hex(16), **facts)


@contextmanager
def kazoo_client(hosts: str, timeout: float = 10.0) -> Iterator[KazooClient]:
    """Another program, which knows nothing of us."""
    client = KazooClient(hosts, timeout=timeout)
    client.start(PATIENCE)
    try:
        yield client
    finally:
        client.stop()
        client.close()


@pytest.fixture
def kazoo(zookeeper_server: ZooKeeperServer) -> Iterator[KazooClient]:
    with kazoo_client(zookeeper_server.address) as client:
        yield client


@pytest.fixture(params=["one", "three"])
def server(request: pytest.FixtureRequest) -> ZooKeeperServer:
    """A lone one, and a follower of an ensemble."""
    if request.param == "one":
        lone: ZooKeeperServer = request.getfixturevalue("zookeeper_server")
        return lone
    ensemble: ZooKeeperEnsemble = request.getfixturevalue("zookeeper_ensemble")
    eventually(lambda: len(ensemble.followers) == 2, "whole")
    return ensemble.followers[0]


@pytest.fixture
def beside(server: ZooKeeperServer) -> Iterator[KazooClient]:
    with kazoo_client(server.address) as client:
        yield client


@pytest.fixture
def anywhere(server: ZooKeeperServer) -> str:
    """A part of either of one's own."""
    return f"{server.url}/{root()}"


def children(client: KazooClient, path: str) -> list[str]:
    """Who stands there, by all that has happened; an empty lock's node may be gone itself. Who
    looks on may lose its own connection to a server that stood still.
    """
    client.retry(client.sync, path)
    try:
        found: list[str] = client.retry(client.get_children, path)
    except NoNodeError:
        return []
    return found


@pytest.fixture
def url(zookeeper_server: ZooKeeperServer) -> str:
    """A part of the server of one's own."""
    return f"{zookeeper_server.url}/{root()}"


def root() -> str:
    return f"test-{secrets.token_hex(6)}"


def signal() -> ThreadSignal:
    return ThreadSignal()


class Traffic:
    """What a session sends: how often somebody waited, and for what."""

    def __init__(self, session: Any) -> None:
        self.batches: list[list[str]] = []
        send = session.send

        def note(requests: Any, done: Any) -> Any:
            self.batches.append([type(each).__name__ for each in requests])
            return send(requests, done)

        session.send = note
