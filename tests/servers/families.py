"""A server that is several processes, such as PostgreSQL: they stand still, go on and die together.

Each session has a process of its own, which goes on when only the first one is stopped. And one
that is left behind by a kill keeps the next server from using the data.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tests.servers.processes import Process, exists, until


class Family(Process):
    """The first process, and those that it started."""

    def stop(self) -> None:
        """The first one first: then it starts no more."""
        super().stop()
        children = self.children()
        _send(signal.SIGSTOP, children)
        until(lambda: all(_stands_still(each) for each in children), "everybody stands still")

    def cont(self) -> None:
        _send(signal.SIGCONT, self.children())
        super().cont()

    def kill(self) -> None:
        if not self.running:
            return
        super().stop()
        children = self.children()
        super().kill()
        _send(signal.SIGKILL, children)
        until(lambda: not any(map(exists, children)), "everybody is gone")

    def children(self) -> list[int]:
        try:
            told = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        except FileNotFoundError:  # it has ended
            return []
        return [int(word) for word in told.split()]


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _stands_still(pid: int) -> bool:
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return True
    return told.rpartition(")")[2].split()[0] in "TtZ"
