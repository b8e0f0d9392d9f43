"""How soon a stand-in leads, engine by engine: waited for, and bounded by what the engine promises.

With LOCKNUT_TAKEOVER set it also prints the times, for docs/election.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import locknut
from tests.contracts.sources import ROOT

pytestmark = pytest.mark.faults

CANDIDATE = """
import sys, time, locknut

def work(term):
    print("leads", time.monotonic(), flush=True)
    sys.stdin.readline()

locks = locknut.connect()
locks.on_event(lambda event: event.kind == "waiting" and print("waits", flush=True))
print("stands by", flush=True)
locks.election("x"{ttl}).run(work)
"""
HANGS = 60.0
TTL = 2.0
PATIENCE = 15.0
"""How much later than promised a busy machine may be."""
ENGINES = {
    "file": (None, 0.0),
    "sqlite": (TTL, TTL),
    "redis": (TTL, TTL),
    "postgresql": (TTL, TTL),
    "mariadb": (TTL, TTL),
    "mysql": (TTL, TTL),
    "redlock": (TTL, TTL + 0.5),
    "memcached": (3.0, 3.0 + 2.0),
    "etcd": (None, 15.0),
    "zookeeper": (None, 15.0),
}
"""The ttl that a candidate asks for, and how long the engine takes to notice a crash."""
MARKS = {
    "postgresql": (pytest.mark.slow,),
    "mariadb": (pytest.mark.slow,),
    "mysql": (pytest.mark.slow,),
    "redlock": (pytest.mark.slow,),
    "memcached": (pytest.mark.slow,),
    "etcd": (pytest.mark.slow,),
    "zookeeper": (pytest.mark.slow,),
}
FIXTURES = {
    "redis": "redis_server",
    "postgresql": "postgresql_database",
    "mariadb": "mariadb_database",
    "mysql": "mysql_database",
    "redlock": "redlock_nodes",
    "memcached": "memcached_server",
    "etcd": "etcd_server",
    "zookeeper": "zookeeper_server",
}

Host = subprocess.Popen[str]


@pytest.fixture(
    params=[
        pytest.param(name, marks=(getattr(pytest.mark, name), *MARKS.get(name, ())))
        for name in ENGINES
    ]
)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if engine == "file":
        return f"file://{tmp_path}/locks"
    if engine == "sqlite":
        return f"sqlite://{tmp_path}/locks.db"
    at: str = request.getfixturevalue(FIXTURES[engine]).url
    mark = "&" if "?" in at else "?"
    return f"{at}{mark}namespace=takeover-{tmp_path.name}"


@contextmanager
def candidate(url: str, ttl: float | None) -> Iterator[Host]:
    code = CANDIDATE.format(ttl="" if ttl is None else f", ttl={ttl}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LOCKNUT_URL": url}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as host:
        try:
            assert host.stdout is not None
            assert host.stdout.readline() == "stands by\n"
            yield host
        finally:
            host.kill()


def leads(host: Host) -> float:
    """Wait until it leads; return since when, by the clock of this machine."""
    assert host.stdout is not None
    word, when = host.stdout.readline().split()
    assert word == "leads"
    return float(when)


def until_waiting(host: Host, url: str) -> None:
    assert host.stdout is not None
    assert host.stdout.readline() == "waits\n"
    give_up = time.monotonic() + HANGS
    with locknut.connect(url) as locks:
        while "waiters" in locks.capabilities and not locks.info("x").waiters:
            assert time.monotonic() < give_up
            time.sleep(0.01)


@pytest.mark.parametrize("how", ["released", "killed"])
def test_a_stand_in_takes_over(engine: str, url: str, how: str) -> None:
    ttl, promised = ENGINES[engine]
    with candidate(url, ttl) as first:
        leads(first)
        with candidate(url, ttl) as second:
            until_waiting(second, url)
            began = time.monotonic()
            if how == "killed":
                first.kill()
            else:
                assert first.stdin is not None
                first.stdin.write("\n")
                first.stdin.flush()
            took = leads(second) - began
    assert took < (promised if how == "killed" else 0.0) + PATIENCE
    if os.environ.get("LOCKNUT_TAKEOVER"):
        print(f"TAKEOVER {engine} {how} {took:.3f}")
