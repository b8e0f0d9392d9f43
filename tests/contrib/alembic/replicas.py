"""Processes of one deployment: started at once, waited for, killed in the middle."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import locknut
from tests.servers.processes import until

HANGS = 120.0


@contextmanager
def replica(folder: Path, url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that has its locks at `url`, and does not outlive the test."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "LOCKNUT_URL": url},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def ends(started: subprocess.Popen[str], code: int = 0) -> str:
    said, _ = started.communicate(timeout=HANGS)
    assert started.returncode == code, said
    return said


def until_waiters(locks: locknut.Locks, count: int) -> None:
    until(lambda: len(locks.info("migrate").waiters) >= count, f"{count} wait", HANGS)


def until_told(told: Callable[[], list[str]]) -> None:
    """Until a line was written: a file is there a moment before its first line."""
    until(lambda: bool(told()), "the first has begun", HANGS)


def until_exists(file: Path) -> None:
    until(file.exists, f"{file.name} is there", HANGS)
