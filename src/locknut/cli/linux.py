"""What only the kernel can promise about processes: who dies with whom, and who inherits orphans.

All of it is Linux; elsewhere each function says that it could not, and the caller does with less.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

Prctl = Callable[[int, int], bool]


def prctl() -> Prctl:
    """The system call, looked up before a fork so that the child has nothing left to import."""
    if not sys.platform.startswith("linux"):
        return lambda _option, _value: False
    import ctypes  # 5 ms that only `run` pays

    call = ctypes.CDLL(None, use_errno=True).prctl
    call.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
    return lambda option, value: call(option, value, 0, 0, 0) == 0


def die_with_parent(call: Prctl, signum: int, parent: int) -> None:
    """In a forked child: be sent `signum` when the thread that forked it ends.

    The parent may have died before the call, and then nobody ever sends the signal: so look who the
    parent is afterwards, and go if it is another.
    """
    call(_PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent:
        os._exit(128 + signum)


def adopt_orphans(call: Prctl) -> bool:
    """Become the parent of descendants that lose their own, so that we can wait for them."""
    return call(_PR_SET_CHILD_SUBREAPER, 1)


def descendants(group: int) -> list[int]:
    """The processes of `group` that come from this one, however deep; empty where unknown.

    Parents come before their children: a shell that gets the signal after the command it waits for
    would go on with its next line in between.
    """
    parents: dict[int, int] = {}
    members: list[int] = []
    for pid in _pids():
        # A process may be gone by the time it is looked at.
        with suppress(OSError, ValueError, IndexError):
            parents[pid], its_group = _parent_and_group(pid)
            if its_group == group:
                members.append(pid)
    depths = {pid: _depth(pid, os.getpid(), parents) for pid in members}
    return sorted((pid for pid in members if depths[pid]), key=lambda pid: depths[pid])


def _pids() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208  # as below
    return []


def _parent_and_group(pid: int) -> tuple[int, int]:
    with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123  # pathlib is slow to import
        # The second field is the command in parentheses and may hold anything, also ")".
        fields = stat.read().rpartition(b")")[2].split()
    return int(fields[1]), int(fields[2])


def _depth(pid: int, ancestor: int, parents: dict[int, int]) -> int:
    """How many generations below `ancestor`; 0 if it is not below."""
    # Bounded, because the picture was not taken in one moment.
    for depth in range(1, len(parents) + 1):
        pid = parents.get(pid, 0)
        if pid in (ancestor, 0):
            return depth if pid else 0
    return 0
