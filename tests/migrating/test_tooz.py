"""Locks of tooz beside ours without Redis: one line in ZooKeeper, nothing shared elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tooz import coordination

import locknut
from tests.migrating.peers import PATIENCE, eventually, in_a_thread
from tests.servers.zookeeper import ZooKeeperServer

Coordinate = Callable[[str], Any]


@pytest.fixture
def coordinate() -> Iterator[Coordinate]:
    with ExitStack() as stack:

        def start(url: str) -> Any:
            coordinator = coordination.get_coordinator(url, b"worker-3")
            coordinator.start()
            if client := getattr(coordinator, "_coord", None):  # kazoo's, which it never closes
                stack.callback(client.close)
            stack.callback(coordinator.stop)
            return coordinator

        yield start


@pytest.mark.zookeeper
def test_on_zookeeper_both_stand_in_one_line(
    zookeeper_server: ZooKeeperServer, coordinate: Coordinate
) -> None:
    name = f"report-{secrets.token_hex(4)}"
    theirs = coordinate(f"zookeeper://{zookeeper_server.address}").get_lock(name.encode())
    url = f"zookeeper://{zookeeper_server.address}/tooz?layout=kazoo&namespace=locks"
    with locknut.connect(url) as locks:
        lease = locks.lock(name).acquire()
        assert lease is not None
        assert not theirs.acquire(blocking=False)
        with in_a_thread(lambda: theirs.acquire(blocking=PATIENCE)) as got:
            eventually(lambda: locks.info(name).waiters, "it stands in line")
            lease.release()
            assert got()
        assert [each.label for each in locks.info(name).holders] == ["worker-3"]
        assert locks.lock(name).acquire(blocking=False) is None
        theirs.release()
        with locks.lock(name, timeout=PATIENCE):
            pass


def test_files_are_not_shared(tmp_path: Path, coordinate: Coordinate) -> None:
    theirs = coordinate(f"file://{tmp_path}/theirs").get_lock(b"report")
    with locknut.connect(f"file://{tmp_path}/theirs") as locks, locks.lock("report"):
        assert theirs.acquire(blocking=False)
        theirs.release()
