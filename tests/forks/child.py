"""A forked child that runs a check, and what of its parent's sockets it still has."""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

HANGS = 60.0
"""Seconds after which a child is taken to hang."""


def in_child(check: Callable[[], object]) -> None:
    """Run it in a forked child, and fail if it fails there."""
    wait_for(start_child(check))


def start_child(check: Callable[[], object]) -> int:
    """The same, for who has something else to do meanwhile: its pid."""
    sys.stdout.flush()
    sys.stderr.flush()
    faulthandler.cancel_dump_traceback_later()  # its thread is not in the child, which waits for it
    pid = os.fork()
    if pid == 0:
        code = 1
        faulthandler.dump_traceback_later(HANGS, exit=True)  # then it is seen where
        try:
            check()
            code = 0
        except BaseException:  # noqa: BLE001  # told by the exit code
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def wait_for(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def sockets() -> set[str]:
    """Those this process has open, each by a name that its copy in a child has too."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{fd}"))
    return {each for each in found if each.startswith("socket:")}
