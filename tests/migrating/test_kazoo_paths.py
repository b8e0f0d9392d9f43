"""A path that kazoo's locks have, taken apart into a root, a namespace and a name of ours."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient

import locknut
from tests.migrating.peers import PATIENCE
from tests.servers.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.zookeeper


@pytest.fixture
def kazoo(zookeeper_server: ZooKeeperServer) -> Iterator[Any]:
    client = KazooClient(zookeeper_server.address)
    client.start(timeout=PATIENCE)
    yield client
    client.stop()
    client.close()


def test_root_namespace_and_name_make_up_the_path(
    kazoo: Any, zookeeper_server: ZooKeeperServer
) -> None:
    root = f"services-{secrets.token_hex(4)}"
    theirs = kazoo.Lock(f"/{root}/nightly/report")
    url = f"zookeeper://{zookeeper_server.address}/{root}?layout=kazoo&namespace=nightly"
    with locknut.connect(url) as locks:
        with locks.lock("report"):
            assert not theirs.acquire(blocking=False)
        with theirs:
            assert locks.lock("report").acquire(blocking=False) is None
        with locks.lock("report", timeout=PATIENCE):
            pass


def test_layouts_of_ours_exclude_each_other(zookeeper_server: ZooKeeperServer) -> None:
    """So `layout=kazoo` may be dropped one by one, when nobody of kazoo's is left."""
    url = f"zookeeper://{zookeeper_server.address}/services-{secrets.token_hex(4)}"
    with locknut.connect(url) as new, locknut.connect(f"{url}?layout=kazoo") as old:
        for one, other in ((new, old), (old, new)):
            with one.lock("report", timeout=PATIENCE):
                assert other.lock("report").acquire(blocking=False) is None
