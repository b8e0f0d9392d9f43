"""Metrics and spans in OpenTelemetry, by its SDK, in both colours."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

import locknut
from locknut import aio, metrics
from locknut.metrics.catalogue import METRICS, WAIT
from tests.servers.processes import until


class Telemetry:
    """Providers of a test's own, and what they were told."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._exporter = InMemorySpanExporter()
        self.meters = MeterProvider([self._reader])
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.given: dict[str, Any] = {
            "meter_provider": self.meters,
            "tracer_provider": self.tracers,
        }

    def points(self, name: str) -> list[Any]:
        data = self._reader.get_metrics_data()
        return [
            point
            for resource in (data.resource_metrics if data else [])
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]

    def total(self, name: str) -> float:
        return sum(getattr(point, "value", 0) for point in self.points(name))

    def spans(self) -> list[Any]:
        return list(self._exporter.get_finished_spans())


@pytest.fixture
def telemetry() -> Iterator[Telemetry]:
    made = Telemetry()
    yield made
    made.meters.shutdown()
    made.tracers.shutdown()


@pytest.fixture
def locks() -> Iterator[locknut.Locks]:
    with locknut.connect("memory:otel") as made:
        yield made


def test_the_twins(locks: locknut.Locks, telemetry: Telemetry) -> None:
    metrics.opentelemetry(locks, **telemetry.given)
    with locks.lock("x:1", ttl=30) as lease, locknut.connect("memory:otel") as others:
        lease.renew()
        assert telemetry.total("locknut.held") == 1
        metrics.opentelemetry(others, **telemetry.given)
        assert others.lock("x:1").acquire(timeout=0.05) is None
    assert telemetry.total("locknut.held") == telemetry.total("locknut.pending") == 0
    assert telemetry.total("locknut.timeouts") == 1
    assert telemetry.total("locknut.acquisitions") == 2
    (point,) = telemetry.points("locknut.wait_time")
    assert point.explicit_bounds == WAIT.buckets
    assert point.attributes == {
        "locknut.backend": "memory", "locknut.lock": "x:*", "locknut.mode": "exclusive",
    }  # fmt: skip
    assert telemetry.points("locknut.hold_time")[0].count == 1
    assert telemetry.points("locknut.lease_margin")[0].sum > 0
    assert {each.attributes["locknut.op"] for each in telemetry.points("locknut.backend.duration")}


def test_a_span_for_each_acquire_below_the_callers(
    locks: locknut.Locks, telemetry: Telemetry
) -> None:
    metrics.opentelemetry(locks, **telemetry.given)
    tracer = telemetry.tracers.get_tracer("a test")
    with tracer.start_as_current_span("request") as request, locks.lock("x:1") as lease:
        pass
    acquire, parent = telemetry.spans()
    assert acquire.name == "locknut.acquire x:*"
    assert acquire.parent.span_id == request.get_span_context().span_id == parent.context.span_id
    assert acquire.attributes["locknut.name"] == "x:1"
    assert acquire.attributes["locknut.fence"] == lease.fence
    assert acquire.attributes["locknut.outcome"] == "acquired"
    waited = acquire.attributes["locknut.waited"]
    assert acquire.end_time - acquire.start_time == pytest.approx(waited * 1e9, abs=1000)


def test_a_loss_leads_to_its_acquire(locks: locknut.Locks, telemetry: Telemetry) -> None:
    metrics.opentelemetry(locks, **telemetry.given)
    lease = locks.lock("x:1").acquire()
    assert lease
    locks.force_release("x:1", reason="a test")
    assert lease.lost.wait(30)
    until(lambda: len(telemetry.spans()) == 3, "three spans")
    spans = {span.name: span for span in telemetry.spans()}
    lost = spans["locknut.lost x:*"]
    assert lost.status.status_code is StatusCode.ERROR
    assert lost.attributes["locknut.reason"].startswith("broken")
    assert lost.links[0].context.span_id == spans["locknut.acquire x:*"].context.span_id
    assert spans["locknut.broken x:*"].attributes["locknut.reason"] == "a test"


def test_asyncio(telemetry: Telemetry) -> None:
    async def main() -> None:
        tracer = telemetry.tracers.get_tracer("a test")
        async with aio.connect("memory:otel") as locks, aio.connect("memory:otel") as others:
            metrics.opentelemetry(locks, **telemetry.given)

            async def work(name: str) -> None:
                with tracer.start_as_current_span(name):
                    async with locks.lock("x:1"):
                        pass

            await asyncio.gather(*(work(f"task {number}") for number in range(3)))
            async with others.lock("x:1"):
                assert await locks.lock("x:1").acquire(blocking=False) is None

    asyncio.run(main())
    spans = telemetry.spans()
    tasks = {span.context.span_id for span in spans if span.name.startswith("task")}
    acquires = [span for span in spans if span.name.startswith("locknut")]
    outcomes = [span.attributes["locknut.outcome"] for span in acquires]
    assert sorted(outcomes) == ["acquired", "acquired", "acquired", "busy"]
    assert {span.parent.span_id for span in acquires if span.parent is not None} == tasks
    assert telemetry.total("locknut.held") == 0


def test_without_traces(locks: locknut.Locks, telemetry: Telemetry) -> None:
    stop = metrics.opentelemetry(locks, **telemetry.given, traces=False)
    with locks.lock("x:1"):
        pass
    stop()
    with locks.lock("x:1"):
        pass
    assert telemetry.spans() == []
    assert telemetry.total("locknut.acquisitions") == 1


def test_every_metric_has_a_twin() -> None:
    assert len({each.otel for each in METRICS}) == len(METRICS)
    assert all(each.otel.startswith("locknut.") for each in METRICS)


def test_the_api_alone_is_enough() -> None:
    """The SDK is the program's own choice; without one nothing is exported, and nothing fails."""
    program = """
import sys
for name in ("opentelemetry.sdk", "prometheus_client"):
    sys.modules[name] = None
import locknut
from locknut import metrics
metrics.opentelemetry()
with locknut.connect("memory:").lock("x") as lease:
    lease.renew()
print("done")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("done\n", "")


@pytest.mark.parametrize(
    ("call", "package", "extra"),
    [
        ("prometheus", "prometheus_client", "prometheus"),
        ("opentelemetry", "opentelemetry", "otel"),
    ],
)
def test_a_missing_package_is_named(call: str, package: str, extra: str) -> None:
    program = f"""
import sys
sys.modules[{package!r}] = None
import locknut
from locknut import metrics
try:
    metrics.{call}()
except locknut.ConfigurationError as error:
    print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert f'{package} is not installed; get it with: pip install "locknut[{extra}]"' in said
