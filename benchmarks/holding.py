"""What it costs to hold many leases that are renewed: threads, processor time, and memory.

All of them are held at once, in one process, each with an expiry of 6 seconds, for longer than
that; in the end every one is released, and counts as kept if its release found it held.
"""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path

from benchmarks.crews import Lock, finished
from benchmarks.kinds import NAME, Kind, kinds_of
from benchmarks.slices import Sample, Slice

TTL = 6.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


def slices(engine: str, name: str, place: str, leases: int) -> Slice:
    """In a contender: hold so many leases for so many milliseconds."""
    kind = kinds_of(engine)[name]
    return partial(_run, kind, place, leases)


def _run(kind: Kind, place: str, leases: int, milliseconds: int) -> Sample:
    work = _hold(kind, place, leases, milliseconds / 1000)
    sample: Sample = kind.loop().run_until_complete(work) if kind.asyncio else finished(work)
    return sample


async def _hold(kind: Kind, place: str, leases: int, seconds: float) -> Sample:
    assert kind.hold is not None
    threads = threading.active_count()
    opened = kind.hold(place)
    first = Lock(opened(f"{NAME}:first"), awaited=kind.asyncio)
    await first.acquire()
    await first.release()  # connected, and its modules are in memory
    memory, wall = memory_of_this(), time.perf_counter()
    held = [Lock(opened(f"{NAME}:{each}"), awaited=kind.asyncio) for each in range(leases)]
    for lock in held:
        await lock.acquire()
    taking, wall, cpu = time.perf_counter() - wall, time.perf_counter(), time.process_time()
    await first.pause(seconds)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    more, grown = threading.active_count() - threads, memory_of_this() - memory
    kept = 0
    for lock in held:
        kept += await _released(lock)
    return {
        "take": taking / leases,
        "share": cpu / wall,
        "threads": more,
        "memory": grown / leases,
        "kept": kept,
    }


async def _released(lock: Lock) -> bool:
    try:
        await lock.release()
    except Exception:  # noqa: BLE001  # every library has its own word for a lost lock
        return False
    return True


def memory_of_this() -> int:
    """Bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
