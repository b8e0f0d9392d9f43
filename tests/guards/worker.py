"""What the processes of the guard's tests do; run as `python worker.py WHAT PATH ...`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from locknut.errors import StaleFence
from locknut.guards import FileGuard

DOORS = ("open", "pwrite", "fsync", "replace", "unlink", "fchown", "fchmod", "close")
"""Every call by which the guard changes something outside the process."""


def say(line: str) -> None:
    """One write, so that lines of a parent and a child never mix."""
    with suppress(BrokenPipeError):
        os.write(1, f"{line}\n".encode())


def die_at(call: int) -> None:
    """SIGKILL ourselves just before the `call`-th of those calls."""
    seen = 0

    def door(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return counted

    for name in DOORS:
        setattr(os, name, door(getattr(os, name)))


def crash(path: str, fence: str, call: str) -> None:
    """Enter and write, and be killed on the way."""
    guard = FileGuard(path)
    die_at(int(call))
    guard.enter(int(fence)).write_text("new")


def hold(path: str, fence: str) -> None:
    """Say so in the middle of a step, and stay there."""
    with FileGuard(path).step(int(fence)):
        say("inside")
        sys.stdin.read()


def fork_inside(path: str, fence: str) -> None:
    """Fork in the middle of a step; the child leaves it after a line on stdin, the parent stays."""
    with FileGuard(path).step(int(fence)):
        if child := os.fork():
            say("parent")
            os.waitpid(child, 0)
            sys.stdin.read()
        else:
            say("child")
            sys.stdin.readline()
    say("left")


def fork_and_write(path: str, fence: str) -> None:
    """Fork in the middle of a step; the child writes after a line on stdin."""
    guard = FileGuard(path)
    with guard.step(int(fence)):
        if not os.fork():
            sys.stdin.readline()
            try:
                guard.write_text("stale")
            except StaleFence:
                say("refused")
            else:
                say("accepted")
            os._exit(0)
    say("left")
    os.wait()


def stress(path: str, rounds: str, first: str, stride: str) -> None:
    """Read, add one line, write: with fences that are old as often as not. Tells what it did."""
    written = refused = 0
    say("ready")
    sys.stdin.readline()
    for turn in range(int(rounds)):
        guard = FileGuard(path)
        try:
            guard.enter(int(first) + turn * int(stride))
            lines = json.loads(guard.read_text())
            guard.write_text(json.dumps([*lines, guard.fence]))
            written += 1
        except StaleFence:
            refused += 1
    say(json.dumps([written, refused]))


ROLES: dict[str, Callable[..., None]] = {
    "crash": crash,
    "hold": hold,
    "fork": fork_inside,
    "fork_and_write": fork_and_write,
    "stress": stress,
}

if __name__ == "__main__":
    ROLES[sys.argv[1]](*sys.argv[2:])
