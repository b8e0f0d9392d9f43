"""Runs tests while they, and all they start, stand still now and then, as on a machine that stalls.

    python3 scripts/stand_still.py SECONDS .venv/bin/python -m pytest tests/api

Stops the command and everybody below it (SIGSTOP) for up to SECONDS at a time. A test that fails
then may wait for a time instead of an event, or hold something that runs out too soon. Two kinds
fail without being wrong: those that watch a job being stopped (`tests/cli/test_terminal.py`), and
those with a process that stops itself, which is woken here if it does so at that very moment.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

REST = (0.5, 4.0)
"""Seconds between two times."""


class Seen(NamedTuple):
    """A process as the kernel tells of it; its start tells it from the next with its number."""

    parent: int
    state: str
    start: str


def main(most: float, command: list[str]) -> int:
    """The command's own exit code."""
    chance = random.Random()  # noqa: S311  # no secret
    running = subprocess.Popen(command)
    try:
        while running.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                return running.wait(chance.uniform(*REST))
            stand_still(running.pid, chance.uniform(0.1, most))
    finally:
        if running.poll() is None:
            running.terminate()
    return running.wait()


def stand_still(root: int, seconds: float) -> None:
    stopped: dict[int, Seen] = {}
    try:
        while found := below(root, stopped):  # who was being started comes to light later
            stopped |= found
            for pid in found:
                tell(pid, signal.SIGSTOP)
        time.sleep(seconds)
    finally:
        now = everybody()
        for pid, seen in reversed(stopped.items()):
            if pid in now and now[pid].start == seen.start:
                tell(pid, signal.SIGCONT)


def below(root: int, known: dict[int, Seen]) -> dict[int, Seen]:
    """Those that run, parents first; who stands still already was stopped by a test."""
    seen, line = everybody(), [root]
    for pid in line:
        line += [child for child, each in seen.items() if each.parent == pid]
    return {
        pid: seen[pid]
        for pid in line
        if pid in seen and pid not in known and seen[pid].state not in "TZX"
    }


def everybody() -> dict[int, Seen]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            told = stat.read_text(errors="replace").rpartition(")")[2].split()
            found[int(stat.parent.name)] = Seen(int(told[1]), told[0], told[19])
    return found


def tell(pid: int, signum: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signum)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
