"""What an uncontended acquire and release of a file lock costs, fence and holder's record included.

1.00 is a bare lock and unlock of the same kernel lock in a Python loop: it persists nothing, checks
nothing and wakes nobody.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import measuring
from benchmarks.file_locks import ASYNCIO, BARE, BLOCKING, FAIR, FILE_LOCKS, PEERS, missing, present
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample, Slice

PAIRS = 5000
OF_BARE = 0.10


def measure(plan: Plan) -> Table:
    """Each contender's speed as a part of the bare pair's."""
    table = Table(
        "file.pairs: one uncontended acquire and release",
        ("", "us per pair (CPU)", "best quarter", "us (wall)", "of bare (CPU)", "of bare (wall)"),
    )
    names = present(BARE, BLOCKING, FAIR, ASYNCIO, *PEERS)
    table.notes += missing(*PEERS)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        slices = {}
        for name in names:
            options = {"name": name, "folder": folder}
            contender = stack.enter_context(Contender(f"{__name__}:slices", options))
            contender.run(plan.count(500))
            slices[name] = partial(contender.run, plan.count(PAIRS, 20))
        found = measuring.interleaved(slices, plan.rounds, plan.seed)
    cpu = {name: [each["cpu"] * 1e6 for each in found[name]] for name in names}
    wall = {name: [each["wall"] * 1e6 for each in found[name]] for name in names}
    of_bare = {name: measuring.ratio(cpu[BARE], cpu[name]) for name in names}
    for name in names:
        best, by_wall = measuring.best_quarter(cpu[name]), measuring.ratio(wall[BARE], wall[name])
        median = measuring.median(wall[name])
        table.add(name, measuring.median(cpu[name]), best, median, of_bare[name], by_wall)
    table.aim("blocking, of the bare pair", of_bare[BLOCKING], OF_BARE)
    for peer in present(*PEERS):
        times = measuring.ratio(cpu[peer], cpu[BLOCKING])
        table.aim(f"blocking, times as fast as {peer}", times, 1.0)
    return table


def slices(name: str, folder: str) -> Slice:
    """In a contender: `count` pairs."""
    kind = FILE_LOCKS[name]
    if not kind.asyncio:
        pair = kind.open(Path(folder))
        return partial(_blocking, pair.acquire, pair.release)
    loop = asyncio.new_event_loop()
    opened: list[Any] = []

    async def run(count: int) -> Sample:
        if not opened:
            opened.append(kind.open(Path(folder)))
        return await _awaiting(opened[0].acquire, opened[0].release, count)

    return lambda count: loop.run_until_complete(run(count))


def _blocking(acquire: Callable[[], Any], release: Callable[[], Any], count: int) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        acquire()
        release()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu / count, "wall": wall / count}


async def _awaiting(
    acquire: Callable[[], Awaitable[Any]], release: Callable[[], Awaitable[Any]], count: int
) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        await acquire()
        await release()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu / count, "wall": wall / count}
