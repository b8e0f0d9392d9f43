# ruff: noqa: SLF001 -- it measures what is inside
"""Where the time of one uncontended pair goes, layer by layer, blocking.

Each row does what the one before does and one layer more, in the same run; the difference is what
that layer costs. (A profiler would charge small functions for its own work.)
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

import locknut
from benchmarks import measuring
from benchmarks.numbers import Cell
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample, Slice
from locknut.core.acquiring import acquire
from locknut.core.releasing import release
from locknut.runtimes.threads import run, run_void

PAIRS = 10_000
ENGINES = ("memory:", "file:")
MORE = (" so far", " this layer")
LAYERS = {
    "an empty loop": "nothing",
    "a random claim id": "new_id",
    "the claim": "claim",
    "the engine: attempt, release": "engine",
    "the core: line, hold, lease, clock": "core",
    "the face: acquire(), release()": "calls",
    "the face: with": "block",
}


def measure(plan: Plan) -> Table:
    """Cumulated processor time, and the step from row to row."""
    title = "core.layers: where the time of one blocking pair goes, us of processor time"
    table = Table(title, ("layer added", *(f"{each}{more}" for each in ENGINES for more in MORE)))
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        slices = {}
        for engine, layer in product(ENGINES, LAYERS.values()):
            url = f"file://{folder}/locks" if engine == "file:" else engine
            options = {"url": url, "layer": layer}
            contender = stack.enter_context(Contender(f"{__name__}:slices", options))
            contender.run(plan.count(2000))
            slices[engine + layer] = partial(contender.run, plan.count(PAIRS, 50))
        found = measuring.interleaved(slices, plan.rounds, plan.seed)
    so_far = dict.fromkeys(ENGINES, 0.0)
    for name, layer in LAYERS.items():
        cells: list[Cell] = [name]
        for engine in ENGINES:
            now = measuring.median([each["cpu"] * 1e6 for each in found[engine + layer]])
            cells += [now, now - so_far[engine]]
            so_far[engine] = now
        table.add(*cells)
    return table


def slices(url: str, layer: str) -> Slice:
    """In a contender: `count` pairs down to this layer."""
    locks = locknut.connect(url)
    lock = locks.lock("pair")
    steps: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "new_id": locks._client.runtime.new_id,
        "claim": partial(locks._client.claim, lock._request, locks._client.runtime.caller()),
        "engine": partial(_engine, lock),
        "core": partial(_core, lock),
        "calls": partial(_calls, lock),
        "block": partial(_block, lock),
    }
    return partial(_timed, steps[layer])


def _timed(step: Callable[[], object], count: int) -> Sample:
    started = time.process_time()
    for _ in range(count):
        step()
    return {"cpu": (time.process_time() - started) / count}


def _engine(lock: locknut.Lock) -> None:
    client, request = lock._client, lock._request
    claim = client.claim(request, client.runtime.caller())
    run(client.backend.attempt(claim, 0.0))
    run(client.backend.release(claim))


def _core(lock: locknut.Lock) -> None:
    acquired: list[Any] = []
    client = lock._client
    run_void(acquire(client, lock._request, client.runtime.caller(), float("inf"), acquired))
    run_void(release(client, acquired[0]))


def _calls(lock: locknut.Lock) -> None:
    lock.acquire()
    lock.release()


def _block(lock: locknut.Lock) -> None:
    with lock:
        pass
