"""Which core of the machine a process may use: waking another one is a cost of its own."""

from __future__ import annotations

import os


def one_core() -> int | None:
    """The last of those that this process may use; nothing where that cannot be said."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    return max(os.sched_getaffinity(0))


def keep_on(core: int | None, pid: int) -> None:
    """This process, and what it will start, on that core alone."""
    if core is not None:
        os.sched_setaffinity(pid, {core})
