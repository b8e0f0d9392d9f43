"""Programs as people write them: locks at the top of a module, and workers that use them.

Each program asserts that its workers wait while it holds their lock, and that nobody was inside
with another. All of them end with the program.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

PROGRAMS = "tests.forks.programs"
HANGS = 90.0
ENGINES = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("file", "redis")]

each_engine = pytest.mark.parametrize("url", ENGINES, indirect=True)
each_place = pytest.mark.parametrize("url", ["file", "redis"], indirect=True)
"""The same, without the markers: an older environment is no lack of an engine."""


@each_engine
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes(url: str, tmp_path: Path, method: str) -> None:
    run("starts_processes", url, tmp_path, method)


@each_engine
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_pool(url: str, tmp_path: Path, method: str) -> None:
    run("has_a_pool", url, tmp_path, method)


@each_place
@pytest.mark.slow
def test_a_prefork_worker_of_celery(url: str, tmp_path: Path) -> None:
    run("sends_tasks", url, tmp_path)


@each_place
def test_gunicorn_that_preloads(url: str, tmp_path: Path) -> None:
    run("serves", url, tmp_path)


def run(program: str, url: str, folder: Path, *arguments: str) -> None:
    """To its end, in a group of its own that has to be empty then."""
    shop = folder / "shop"
    shop.mkdir()
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", f"{PROGRAMS}.{program}", *arguments],
        env={**os.environ, "LOCKNUT_URL": url, "SHOP": str(shop), "PYTHONPATH": path},
        cwd=shop,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as started:
        try:
            said, _ = started.communicate(timeout=HANGS)
            assert started.returncode == 0, said
            until_empty(started.pid)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def until_empty(group: int) -> None:
    """What `multiprocessing` starts for itself ends a little later than the program."""
    give_up = time.monotonic() + HANGS
    while time.monotonic() < give_up:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.02)
    pytest.fail("processes were left behind")
