"""Real workers of a queue: programs that write into a log and end with the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

HANGS: Final = 90.0
Started = AbstractContextManager[subprocess.Popen[bytes]]


def until(true: Callable[[], Any], what: str) -> Any:
    """Wait for it, and return what it is."""
    give_up = time.monotonic() + HANGS
    while not (found := true()):
        assert time.monotonic() < give_up, what
        time.sleep(0.02)
    return found


@contextmanager
def running(
    *words: str, folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Python with these arguments, in a group of its own that does not outlive the `with`."""
    with (folder / "log").open("ab") as log:
        started = subprocess.Popen(
            [sys.executable, *words],
            env=environment,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait(HANGS)
