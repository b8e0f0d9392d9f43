"""Uncontended pairs of acquire and release, by one caller or by many with a name each.

Every kind runs in a process of its own, one at a time, in slices that last about as long for the
slow ones as for the fast ones. With `core`, all of it is kept on that one core of the machine.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from typing import Any

from benchmarks import measuring, placing
from benchmarks import slices as slices_
from benchmarks.kinds import NAME, Field, Kind, Pair, kinds_of
from benchmarks.plan import Plan
from benchmarks.slices import Contender, Sample, Slice

WARM_UP = 0.3
"""Seconds of pairs before it counts."""
Samples = dict[str, list[Sample]]


def race(  # noqa: PLR0913  # all of it is what the question is
    field: Field,
    engine: str,
    place: str,
    *,
    plan: Plan,
    seconds: float,
    finer: int = 1,
    callers: int = 1,
    core: int | None = None,
    servers: Sequence[int] = (),
    patience: float = slices_.PATIENCE,
) -> Samples:
    """Seconds per pair of everybody, by the wall and by the processor, in every round; `finer`
    makes more rounds of shorter slices, in which a spell of noise spoils less. With the pids of
    `servers`, also what those used; a peer that does not end a slice within `patience` is left out.
    """
    contenders: dict[str, Contender] = {}
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        for name in field:
            options = {"engine": engine, "name": name, "place": place, "callers": callers}
            given = patience if field.may_fail(name) else slices_.PATIENCE
            made = Contender(f"{__name__}:slices", options, core=core, patience=given)
            contender = stack.enter_context(made)
            try:
                once = _warm(contender, callers, plan)
            except Exception as problem:  # noqa: BLE001  # whatever a peer may raise
                field.excuse(name, problem)
            else:
                contenders[name] = contender
                each = round(plan.seconds(seconds / finer, 0.002) / once / callers)
                counts[name] = callers * max(1, each)
        rounds = plan.rounds * finer if plan.complete else plan.rounds

        def run(name: str) -> Sample:
            before = placing.cpu_of(servers)
            sample = contenders[name].run(counts[name])
            sample["servers"] = (placing.cpu_of(servers) - before) / counts[name]
            return sample

        return field.race(run, rounds, plan.seed)


def _warm(contender: Contender, callers: int, plan: Plan) -> float:
    """Connected, its code specialised; how long a pair takes at best. One slow slice must not
    decide: slices of a few pairs would measure how long it takes to get going.
    """
    once, left = contender.run(callers)["wall"], plan.seconds(WARM_UP, 0.0)
    while left > 0:
        count = callers * max(1, round(left / 4 / once / callers))
        wall = contender.run(count)["wall"]
        once = min(once, wall)
        left -= max(wall * count, 0.01)
    return once


def column(found: Samples, key: str) -> dict[str, list[float]]:
    """Microseconds of each."""
    return {name: [each[key] * 1e6 for each in samples] for name, samples in found.items()}


def of_limit(figures: dict[str, list[float]], limit: str) -> dict[str, float]:
    """The speed of each as a part of the limit's: the median of the ratios inside the rounds."""
    return {name: measuring.ratio(figures[limit], each) for name, each in figures.items()}


def slices(engine: str, name: str, place: str, callers: int) -> Slice:
    """In a contender: `count` pairs, spread over so many callers."""
    kind = kinds_of(engine)[name]
    if kind.asyncio:
        return _asyncio_slices(kind, place, callers)
    opened = kind.open(place)
    pairs = [opened(f"{NAME}:{me}") for me in range(callers)]
    if callers == 1:
        return lambda count: _timed(lambda: _repeat(pairs[0], count), count)
    threads = ThreadPoolExecutor(callers)
    return lambda count: _timed(lambda: _in_threads(threads, pairs, count), count)


def _timed(work: Callable[[], object], count: int) -> Sample:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"cpu": cpu / count, "wall": wall / count}


def _repeat(pair: Pair, count: int) -> None:
    acquire, release = pair
    for _ in range(count):
        acquire()
        release()


def _in_threads(threads: ThreadPoolExecutor, pairs: Sequence[Pair], count: int) -> None:
    together = Barrier(len(pairs))

    def repeat(pair: Pair) -> None:
        together.wait()
        _repeat(pair, count // len(pairs))

    list(threads.map(repeat, pairs))


def _asyncio_slices(kind: Kind, place: str, callers: int) -> Slice:
    loop = kind.loop()
    asyncio.set_event_loop(loop)  # some peers look for it when they are made
    pairs: list[Pair] = []

    async def open_all() -> None:
        opened = kind.open(place)
        pairs.extend(opened(f"{NAME}:{me}") for me in range(callers))

    async def run(count: int) -> Any:
        if callers == 1:
            await _await_each(pairs[0], count)
        else:
            await asyncio.gather(*(_await_each(pair, count // callers) for pair in pairs))

    loop.run_until_complete(open_all())
    return lambda count: _timed(lambda: loop.run_until_complete(run(count)), count)


async def _await_each(pair: Pair, count: int) -> None:
    acquire, release = pair
    for _ in range(count):
        await acquire()
        await release()
