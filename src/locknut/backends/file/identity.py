"""Who this process is, as others may see it: host, pid, pid namespace, and this boot."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from typing import Final, NamedTuple

from locknut.backends.file.layout import Record, digest, words
from locknut.core.values import Claim

_BOOT_ID: Final = "/proc/sys/kernel/random/boot_id"
_SHIFTS: Final = "/proc/self/timens_offsets"


UNKNOWN_BOOT: Final = bytes(8)
"""Where `/proc` is missing: nothing can be parked, and what others parked is believed until it runs
out by the clock."""


class Identity(NamedTuple):
    """What the records of this process say of it."""

    host: str
    pid: int
    pid_space: int
    boot: bytes


def this_process() -> Identity:
    return Identity(os.uname().nodename, os.getpid(), _pid_space(), _boot())


def same_boot(record: Record, me: Identity) -> bool:
    """Whether the record's times count by a clock that we can read."""
    return me.boot in (record.boot, UNKNOWN_BOOT)


def record_of(claim: Claim, mode: int, owner: bytes, raw: int, now: int, me: Identity) -> Record:
    """What is written down of a grant to this claim; `now` in nanoseconds since the epoch."""
    return Record(
        mode=mode,
        pid=me.pid,
        pid_space=me.pid_space,
        permits=claim.permits,
        raw=raw,
        since=now // 1000,
        boot=me.boot,
        owner_digest=owner,
        words=words(me.host, claim.who, claim.label, claim.owner or ""),
    )


def boot_clock() -> int:
    """Nanoseconds since this boot, suspended time included: what a parked hold is counted by."""
    now = time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
    return now - _shift("boottime")


def monotonic_clock() -> int:
    """Nanoseconds of the monotonic clock: the moment one came, which is one's place in the line."""
    return time.monotonic_ns() - _shift("monotonic")


@cache
def _shift(clock: str) -> int:
    """How far this process's time namespace has shifted that clock, so that processes of different
    namespaces can compare what they read.
    """
    with suppress(OSError, ValueError), open(_SHIFTS, encoding="ascii") as file:
        for name, seconds, nanoseconds in map(str.split, file):
            if name == clock:
                return int(seconds) * 10**9 + int(nanoseconds)
    return 0


def _pid_space() -> int:
    with suppress(OSError):
        return os.stat("/proc/self/ns/pid").st_ino & 0xFFFFFFFF
    return 0


def _boot() -> bytes:
    with suppress(OSError), open(_BOOT_ID, encoding="ascii") as file:
        return digest(file.read())[:8]
    return UNKNOWN_BOOT
