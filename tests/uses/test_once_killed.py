"""Two hosts, of which one is killed in the middle: real processes, on `file:` and on Redis."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.contracts.documentation import blocks_of
from tests.contracts.sources import ROOT
from tests.servers.redis import RedisServer

pytestmark = pytest.mark.faults

JOB = """
import sys, locknut

@locknut.once("report", per="15m", at="{{scheduled}}", retry={retry}, ttl=1)
def report(scheduled):
    print("begun", flush=True)
    sys.stdin.readline()
    return "done"

print(report({at}), flush=True)
"""
HANGS = 60.0

Host = subprocess.Popen[str]
Start = Callable[[str], Host]


@pytest.fixture(
    params=[
        pytest.param("file", marks=pytest.mark.file),
        pytest.param("redis", marks=pytest.mark.redis),
    ]
)
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    """Starts a program on another host, as far as the engine can tell; none outlives the test."""
    url = f"file://{tmp_path}/locks"
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        url = f"{server.url}?namespace=killed-{tmp_path.name}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "LOCKNUT_URL": url}
    with ExitStack() as stack:

        def host(code: str) -> Host:
            started = subprocess.Popen(
                [sys.executable, "-c", code],
                env=environment,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            stack.callback(started.communicate, timeout=HANGS)
            stack.callback(started.kill)
            return started

        yield host


def line(host: Host) -> str:
    assert host.stdout is not None
    return host.stdout.readline().strip()


def killed(host: Host) -> None:
    assert line(host) == "begun"
    host.kill()
    host.wait(HANGS)


def test_a_killed_run_is_not_repeated(start: Start) -> None:
    job = JOB.format(retry=False, at=int(time.time()))
    killed(start(job))
    assert line(start(job)) == "None"


def test_a_killed_run_is_repeated_if_asked(start: Start) -> None:
    job = JOB.format(retry=True, at=int(time.time()))
    killed(start(job))
    give_up = time.monotonic() + HANGS
    while line(second := start(job)) != "begun":  # until the engine has noticed the crash
        assert time.monotonic() < give_up
    assert line(start(job)) == "None"
    assert second.communicate("\n", timeout=HANGS)[0] == "done\n"
    assert line(start(job)) == "None"


def test_the_lines_of_the_page_work_on_two_hosts(start: Start) -> None:
    (block,) = [each for each in blocks_of(ROOT / "docs/once.md") if "at_most" in each.code]
    assert len(block.code.strip().splitlines()) <= 15
    one, other = start(block.code), start(block.code)
    assert {line(one), line(other)} == {"written", "None"}
    assert (one.wait(HANGS), other.wait(HANGS)) == (0, 0)
