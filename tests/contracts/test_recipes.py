"""The recipes that need a framework do what the page says, in a program that uses it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import locknut
from tests.contracts.documentation import Block, blocks_of
from tests.contracts.sources import ROOT

HANGS = 60.0


def recipe(words: str) -> Block:
    """The block of the page that has these words."""
    (found,) = [each for each in blocks_of(ROOT / "docs" / "recipes.md") if words in each.code]
    return found


@contextmanager
def program(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that has its locks in `folder`, and does not outlive the test."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = {**os.environ, "PYTHONPATH": path, "LOCKNUT_URL": f"file://{folder}/locks"}
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def ends_well(started: subprocess.Popen[str]) -> None:
    said, _ = started.communicate(timeout=HANGS)
    assert started.returncode == 0, said


def until_waiters(locks: locknut.Locks, name: str, count: int) -> None:
    give_up = time.monotonic() + HANGS
    while len(locks.info(name).waiters) < count:
        assert time.monotonic() < give_up, f"{count} should wait for {name}"
        time.sleep(0.01)


LEADING = """
def work(fence):
    print(fence, flush=True)
    stop.wait(0.05)

stop = threading.Event()
campaign(locknut.connect(), work, stop)
"""


def test_a_stand_in_takes_over(tmp_path: Path) -> None:
    whole = recipe("steps: list").code
    (tmp_path / "candidate.py").write_text(whole.partition("locks = ")[0] + LEADING)
    with program(tmp_path, "candidate.py") as leader:
        fence = told(leader)
        with program(tmp_path, "candidate.py") as stand_in:
            with locknut.connect(f"file://{tmp_path}/locks") as locks:
                until_waiters(locks, "leader", 1)
            leader.kill()
            assert told(stand_in) > fence


def told(leader: subprocess.Popen[str]) -> int:
    assert leader.stdout is not None
    return int(leader.stdout.readline())
