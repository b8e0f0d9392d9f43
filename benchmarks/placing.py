"""Which core a process may use (waking another one is a cost of its own), and how much it used."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def one_core() -> int | None:
    """The last of those that this process may use; nothing where that cannot be said."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return max(os.sched_getaffinity(0))


def keep_on(core: int | None, *pids: int) -> None:
    """These processes, with all their threads and what they will start, on that core alone."""
    if core is None:
        return
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})


def cpu_of(pids: Iterable[int]) -> float:
    """Seconds of processor that these have used up to now; nothing where that cannot be said."""
    used = 0
    for pid in pids:
        told = Path(f"/proc/{pid}/schedstat")
        used += int(told.read_text().split()[0]) if told.exists() else 0
    return used / 1e9
