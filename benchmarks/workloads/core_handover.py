# ruff: noqa: SLF001 -- it measures what is inside
"""How often a lock changes hands inside one process, with and without handing over locally.

64 threads or tasks want one name on an engine whose commands take 200 microseconds. Counted are
changes of the owner, not acquisitions. The delay really passes (see `engines`), and a lone pair on
the same engine says what two commands took in truth.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack
from functools import partial

import locknut
import locknut.aio
from benchmarks import measuring
from benchmarks.engines import DelayedEngine, sharp_loop, sharp_timers
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample, Slice
from locknut.opening import Settings

DELAY = 0.0002
CROWD = 64
MILLISECONDS = 1000
TIMES_FASTER = 8.0
KINDS = {
    f"{CROWD} threads, {how}": {"colour": "threads", "cohort": cohort}
    for how, cohort in {"cohort=16": 16, "cohort=0": 0}.items()
} | {
    f"{CROWD} tasks, {how}": {"colour": "tasks", "cohort": cohort}
    for how, cohort in {"cohort=16": 16, "cohort=0": 0}.items()
}


def measure(plan: Plan) -> Table:
    """Owner changes per second, and how many times more a cohort makes."""
    table = Table(
        f"core.handover: one name, {CROWD} wanting it, {DELAY * 1e6:.0f} us per command",
        ("", "owner changes/s", "fewest (quarter)", "commands per change", "us per lone command"),
    )
    milliseconds = plan.count(MILLISECONDS, 60)
    with ExitStack() as stack:
        slices = {}
        for name, options in KINDS.items():
            contender = stack.enter_context(Contender(f"{__name__}:slices", options))
            slices[name] = partial(contender.run, milliseconds)
        found = measuring.interleaved(slices, plan.few(7), plan.seed)
    rates = {name: [each["changes"] for each in samples] for name, samples in found.items()}
    for name, samples in found.items():
        commands = measuring.median([each["commands"] for each in samples])
        lone = measuring.median([each["lone"] * 1e6 for each in samples])
        rate = rates[name]
        table.add(name, measuring.median(rate), measuring.best_quarter(rate), commands, lone)
    for crowd in ("threads", "tasks"):
        handing, asking = (rates[f"{CROWD} {crowd}, cohort={cohort}"] for cohort in (16, 0))
        ratio = measuring.ratio(handing, asking)
        table.aim(f"{CROWD} {crowd}: times cohort=0", ratio, TIMES_FASTER)
    return table


class Tally:
    """Who had it last, and how often that changed. Written only by who holds the lock."""

    def __init__(self) -> None:
        self.changes = 0
        self.last = -1
        self.commands = 0

    def note(self, me: int, number: int) -> None:
        if self.last != me:
            self.changes += 1
            self.last = me
        if number == 0:
            self.commands += 2  # a grant of the engine's, and later its release

    def sample(self, seconds: float, lone: float) -> Sample:
        per_change = self.commands / max(1, self.changes)
        return {"changes": self.changes / seconds, "commands": per_change, "lone": lone}


def slices(colour: str, cohort: int) -> Slice:
    """In a contender: a slice of so many milliseconds."""
    sharp_timers()
    settings = Settings(cohort=cohort)
    if colour == "threads":
        return partial(_threads, locknut.Locks(DelayedEngine(DELAY), settings))
    loop = sharp_loop()
    asyncio.set_event_loop(loop)
    locks = locknut.aio.Locks(DelayedEngine(DELAY), settings)
    return lambda milliseconds: loop.run_until_complete(_tasks(locks, milliseconds))


def _threads(locks: locknut.Locks, milliseconds: int) -> Sample:
    lock = locks.lock("crowd")
    started = time.perf_counter()
    for _ in range(10):
        with lock:
            pass
    lone = (time.perf_counter() - started) / 20
    tally = Tally()
    until = time.perf_counter() + milliseconds / 1000

    def work(me: int) -> None:
        while time.perf_counter() < until:
            with lock as lease:
                tally.note(me, lease._number)

    crowd = [threading.Thread(target=work, args=(each,)) for each in range(CROWD)]
    started = time.perf_counter()
    for each in crowd:
        each.start()
    for each in crowd:
        each.join()
    return tally.sample(time.perf_counter() - started, lone)


async def _tasks(locks: locknut.aio.Locks, milliseconds: int) -> Sample:
    lock = locks.lock("crowd")
    started = time.perf_counter()
    for _ in range(10):
        async with lock:
            pass
    lone = (time.perf_counter() - started) / 20
    tally = Tally()
    until = time.perf_counter() + milliseconds / 1000

    async def work(me: int) -> None:
        while time.perf_counter() < until:
            async with lock as lease:
                tally.note(me, lease._number)

    started = time.perf_counter()
    await asyncio.gather(*(work(each) for each in range(CROWD)))
    return tally.sample(time.perf_counter() - started, lone)
