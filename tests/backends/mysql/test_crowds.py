"""Many processes wait for one lock, with two connections each, and all of them get it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import locknut
from tests.backends.mysql.conftest import BOTH, acquired, eventually
from tests.forks.child import start_child, wait_for
from tests.servers.mysql import MariaServer, MySqlServer

KINDS = {"mariadb": MariaServer, "mysql": MySqlServer}
PROCESSES = int(os.environ.get("LOCKNUT_PROCESSES", "100"))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("kind", BOTH)
def test_100_processes_wait(kind: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()

    def child() -> None:
        with locknut.connect(f"{database.url}?timeout=30s") as own:
            lease = own.lock("x", timeout=200, ttl=60).acquire()
            assert lease is not None
            with log.open("a") as lines:
                lines.write(f"{lease.fence} {os.getpid()}\n")
            lease.release()

    limit = 2 * PROCESSES + 10
    with KINDS[kind](connections=limit) as server, server.database() as database:
        with locknut.connect(f"{database.url}?timeout=30s") as locks:
            lease = acquired(locks.lock("x", ttl=120))
            children = [start_child(child) for _ in range(PROCESSES)]
            eventually(
                lambda: len(locks.info("x").waiters) == PROCESSES, "they do not all stand in line"
            )
            assert len(server.sessions()) <= limit
            lease.release()
            for pid in children:
                wait_for(pid)
        fences = [int(line.split()[0]) for line in log.read_text().splitlines()]
        assert len(fences) == PROCESSES
        assert fences == sorted(set(fences))
