# ruff: noqa: SLF001 -- it measures what is inside
"""Where the time of one uncontended pair goes, layer by layer, blocking.

Each row does what the one before does and one layer more, in the same run; the difference is what
that layer costs. (A profiler would charge small functions for its own work.)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import holdfast
from benchmarks import measuring
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample, Slice
from holdfast.core.entering import acquire
from holdfast.core.leaving import release
from holdfast.runtimes.threads import run

PAIRS = 20_000
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
    title = "core.layers: where the time of one blocking pair goes (memory engine)"
    table = Table(title, ("layer added", "us so far (CPU)", "this layer", "share of the pair"))
    with ExitStack() as stack:
        slices = {}
        for name, layer in LAYERS.items():
            contender = stack.enter_context(Contender(f"{__name__}:slices", {"layer": layer}))
            contender.run(plan.count(2000))
            slices[name] = partial(contender.run, plan.count(PAIRS, 50))
        found = measuring.interleaved(slices, plan.rounds, plan.seed)
    times = [measuring.median([each["cpu"] * 1e6 for each in found[name]]) for name in LAYERS]
    whole = times[-1]
    for before, name, now in zip([0.0, *times], LAYERS, times, strict=False):
        table.add(name, now, now - before, f"{(now - before) / whole:.0%}")
    return table


def slices(layer: str) -> Slice:
    """In a contender: `count` pairs down to this layer."""
    locks = holdfast.connect("memory:layers")
    lock = locks.lock("pair")
    steps: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "new_id": locks._client.runtime.new_id,
        "claim": partial(locks._client.claim, lock._want.key, lock._want.terms),
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


def _engine(lock: holdfast.Lock) -> None:
    client, want = lock._client, lock._want
    claim = client.claim(want.key, want.terms)
    run(client.backend.attempt(claim, 0.0))
    run(client.backend.release(claim))


def _core(lock: holdfast.Lock) -> None:
    made: list[Any] = []
    lease = run(acquire(lock._client, lock._want, float("inf"), made))
    assert lease is not None
    run(release(lock._client, lease))


def _calls(lock: holdfast.Lock) -> None:
    lock.acquire()
    lock.release()


def _block(lock: holdfast.Lock) -> None:
    with lock:
        pass
