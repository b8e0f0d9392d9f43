"""What it costs to hold many leases that are renewed: threads, tasks, and processor time.

All of them are held at once, in one process, each with a ttl of 3 seconds, for longer than that; in
the end every one must still be held.
"""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial

import locknut
import locknut.aio
from benchmarks import measuring
from benchmarks.engines import CountingEngine
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample, Slice

LEASES = 10_000
TTL = 3.0
HOLD_MS = 6000
COLUMNS = (
    "",
    "leases",
    "us to take one (CPU)",
    "threads more",
    "tasks more",
    "CPU share of a core",
    "us per renewal (CPU)",
    "still held",
)


def measure(plan: Plan) -> Table:
    """One keeper thread, whatever the number of leases."""
    table = Table(
        f"core.leases: held for {HOLD_MS / 1000:.0f} s with a ttl of {TTL:.0f} s", COLUMNS
    )
    hold_ms = plan.count(HOLD_MS, 1500)
    leases = plan.count(LEASES, 100)
    for colour in ("blocking", "asyncio"):
        with Contender(f"{__name__}:slices", {"colour": colour, "leases": leases}) as contender:
            slices = {colour: partial(contender.run, hold_ms)}
            found = measuring.interleaved(slices, plan.few(2), plan.seed)[colour]
        middle = {key: measuring.median([each[key] for each in found]) for key in found[0]}
        table.add(
            colour,
            leases,
            middle["take"] * 1e6,
            int(middle["threads"]),
            int(middle["tasks"]),
            f"{middle['cpu']:.1%}",
            middle["renewal"] * 1e6,
            f"{middle['held']:.0f}",
        )
        table.aim(f"{colour}: threads for all leases", middle["threads"], 1, at_least=False)
        table.aim(f"{colour}: tasks for all leases", middle["tasks"], 0, at_least=False)
        table.aim(f"{colour}: leases still held", middle["held"], leases)
    return table


def slices(colour: str, leases: int) -> Slice:
    """In a contender: hold so many leases for so many milliseconds."""
    if colour == "blocking":
        return partial(_blocking, leases)
    return lambda milliseconds: asyncio.run(_asyncio(leases, milliseconds))


class Idle:
    """What happens while nothing but renewing does."""

    def __init__(self, engine: CountingEngine):
        self._engine = engine
        self._renewed = engine.renewed
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def sample(self) -> Sample:
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        renewed = self._engine.renewed - self._renewed
        return {"cpu": cpu / wall, "renewal": cpu / max(1, renewed)}


def _blocking(leases: int, milliseconds: int) -> Sample:
    engine = CountingEngine()
    threads = threading.active_count()
    with locknut.Locks(engine) as locks:
        started = time.process_time()
        held = [locks.lock(f"job-{each}", ttl=TTL).acquire() for each in range(leases)]
        take = (time.process_time() - started) / leases
        idle = Idle(engine)
        time.sleep(milliseconds / 1000)
        sample = idle.sample()
        more = threading.active_count() - threads
        kept = sum(1 for lease in held if lease is not None and lease.held)
        for lease in held:
            assert lease is not None
            lease.release()
    return {**sample, "take": take, "threads": more, "tasks": 0, "held": kept}


async def _asyncio(leases: int, milliseconds: int) -> Sample:
    engine = CountingEngine()
    threads, tasks = threading.active_count(), len(asyncio.all_tasks())
    async with locknut.aio.Locks(engine) as locks:
        started = time.process_time()
        held = [await locks.lock(f"job-{each}", ttl=TTL).acquire() for each in range(leases)]
        take = (time.process_time() - started) / leases
        idle = Idle(engine)
        await asyncio.sleep(milliseconds / 1000)
        sample = idle.sample()
        more = threading.active_count() - threads
        more_tasks = len(asyncio.all_tasks()) - tasks
        kept = sum(1 for lease in held if lease is not None and lease.held)
        for lease in held:
            assert lease is not None
            await lease.release()
    return {**sample, "take": take, "threads": more, "tasks": more_tasks, "held": kept}
