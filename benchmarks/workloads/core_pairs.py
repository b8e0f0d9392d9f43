"""What one uncontended acquire and release costs above the engine: the core and the two faces.

The memory engine's commands neither wait nor leave the process, so all of this is Locknut's own
time. Processor time stands beside wall time: the machine's other work shows only in the second.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial

import locknut
import locknut.aio
from benchmarks import measuring
from benchmarks.plan import Plan
from benchmarks.pythons import all_pythons
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample, Slice

PAIRS = 20_000
BLOCKING_US, ASYNCIO_US = 15.0, 30.0
KINDS = {
    "threading.RLock, with": "rlock",
    "blocking, with": "blocking_with",
    "blocking, acquire/release": "blocking_calls",
    "asyncio.Lock, async with": "asyncio_lock",
    "asyncio, async with": "asyncio_with",
    "asyncio, acquire/release": "asyncio_calls",
}


def measure(plan: Plan) -> Table:
    """Microseconds per pair, on every CPython here."""
    table = Table(
        "core.pairs: one uncontended acquire and release on the memory engine",
        ("", "us per pair (CPU)", "best quarter", "us (wall)"),
    )
    pythons = all_pythons() if plan.complete else dict(list(all_pythons().items())[:1])
    with ExitStack() as stack:
        slices = {}
        for python, path in pythons.items():
            for kind, maker in KINDS.items():
                options = {"kind": maker}
                contender = stack.enter_context(Contender(f"{__name__}:slices", options, path))
                contender.run(plan.count(2000))  # warm: caches, specialised code
                slices[f"{python}: {kind}"] = partial(contender.run, plan.count(PAIRS, 50))
        found = measuring.interleaved(slices, plan.rounds, plan.seed)
    for name, samples in found.items():
        cpu = [sample["cpu"] * 1e6 for sample in samples]
        wall = [sample["wall"] * 1e6 for sample in samples]
        median, best = measuring.median(cpu), measuring.best_quarter(cpu)
        table.add(name, median, best, measuring.median(wall))
        if "blocking" in name:
            table.aim(f"{name}, us", median, BLOCKING_US, at_least=False)
        elif "asyncio," in name:
            table.aim(f"{name}, us", median, ASYNCIO_US, at_least=False)
    return table


def slices(kind: str) -> Slice:
    """In a contender: what runs `count` pairs."""
    locks = locknut.connect("memory:pairs")
    lock = locks.lock("pair")
    if kind == "rlock":
        return partial(timed, partial(with_each, threading.RLock()))
    if kind == "blocking_with":
        return partial(timed, partial(with_each, lock))
    if kind == "blocking_calls":
        return partial(timed, partial(_call_each, lock))
    loop = asyncio.new_event_loop()
    return lambda count: loop.run_until_complete(_timed_async(ASYNCIO[kind], count))


def timed(repeat: Callable[[int], object], count: int) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    repeat(count)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu / count, "wall": wall / count}


def with_each(lock: AbstractContextManager[object], count: int) -> None:
    for _ in range(count):
        with lock:
            pass


def _call_each(lock: locknut.Lock, count: int) -> None:
    for _ in range(count):
        lock.acquire()
        lock.release()


_kept: list[locknut.aio.Locks] = []


def _aio_lock() -> locknut.aio.Lock:
    """One client for the loop of this process."""
    if not _kept:
        _kept.append(locknut.aio.connect("memory:pairs"))
    return _kept[0].lock("pair")


async def _timed_async(repeat: Callable[[int], Awaitable[None]], count: int) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    await repeat(count)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu / count, "wall": wall / count}


async def _standard_each(count: int) -> None:
    lock = asyncio.Lock()
    for _ in range(count):
        async with lock:
            pass


async def _async_with_each(count: int) -> None:
    lock = _aio_lock()
    for _ in range(count):
        async with lock:
            pass


async def _await_each(count: int) -> None:
    lock = _aio_lock()
    for _ in range(count):
        await lock.acquire()
        await lock.release()


ASYNCIO: dict[str, Callable[[int], Awaitable[None]]] = {
    "asyncio_lock": _standard_each,
    "asyncio_with": _async_with_each,
    "asyncio_calls": _await_each,
}
