"""What identifies this boot of the machine, and how its clocks compare between processes."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Final

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_SHIFTS: Final = "/proc/self/timens_offsets"


def boot_id() -> str:
    """Another one after each boot; empty where the kernel does not say it."""
    with suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:  # noqa: PTH123 -- `pathlib` takes long to import
        return file.read()
    return ""


@cache
def shift(clock: str) -> int:
    """Nanoseconds by which this process's time namespace has shifted that clock, so that processes
    of different namespaces can compare what they read.
    """
    with suppress(OSError, ValueError), open(_SHIFTS, encoding="ascii") as file:  # noqa: PTH123 -- as above
        for name, seconds, nanoseconds in map(str.split, file):
            if name == clock:
                return int(seconds) * 10**9 + int(nanoseconds)
    return 0
