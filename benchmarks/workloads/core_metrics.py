"""What looking on costs: an uncontended pair with everything off, and with one thing on at a time.

The rows are taken in turn in one run, so that the machine's other work meets all of them; what
counts is the ratio.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import Any

import locknut
from benchmarks import measuring
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Slice
from benchmarks.workloads.core_pairs import timed, with_each
from locknut import metrics

PAIRS = 10_000
KINDS = {
    "off": "off",
    "turned on, and off again": "off_again",
    'deadlocks="raise"': "deadlocks",
    "a listener that does nothing": "listener",
    "history=1000": "history",
    "Prometheus": "prometheus",
    "OpenTelemetry, metrics": "otel",
    "OpenTelemetry, metrics and spans": "spans",
}


def measure(plan: Plan) -> Table:
    """Microseconds of processor time per pair, and how many times that of everything off."""
    table = Table(
        "core.metrics: one uncontended pair on the memory engine, with one thing on at a time",
        ("", "us per pair (CPU)", "best quarter", "times off"),
    )
    with ExitStack() as stack:
        slices = {}
        for name, kind in KINDS.items():
            contender = stack.enter_context(Contender(f"{__name__}:slices", {"kind": kind}))
            contender.run(plan.count(2000))
            slices[name] = partial(contender.run, plan.count(PAIRS, 50))
        found = measuring.interleaved(slices, plan.rounds, plan.seed)
    off = 0.0
    for name, samples in found.items():
        cpu = [sample["cpu"] * 1e6 for sample in samples]
        median, best = measuring.median(cpu), measuring.best_quarter(cpu)
        off = off or best
        table.add(name, median, best, best / off)
    return table


def slices(kind: str) -> Slice:
    """In a contender: what runs `count` pairs."""
    options: dict[str, Any] = {"history": {"history": 1000}, "deadlocks": {"deadlocks": "raise"}}
    locks = locknut.connect("memory:pairs", **options.get(kind, {}))
    if kind == "listener":
        locks.on_event(lambda _: None)
    elif kind == "prometheus":
        metrics.prometheus(locks)
    elif kind == "off_again":
        metrics.prometheus(locks)()
    elif kind in {"otel", "spans"}:
        _open_telemetry(locks, spans=kind == "spans")
    return partial(timed, partial(with_each, locks.lock("pair:1")))


def _open_telemetry(locks: locknut.Locks, *, spans: bool) -> None:
    """With the SDK, whose reader and exporter keep what they get."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider

    meters, tracers = MeterProvider([InMemoryMetricReader()]), TracerProvider()
    metrics.opentelemetry(locks, meter_provider=meters, tracer_provider=tracers, traces=spans)
