"""Metrics and traces: one line turns them on, for one Locks or for the whole process.

    from locknut import metrics

    metrics.prometheus()                    # every Locks of this process, also those made later
    metrics.prometheus(locks)               # this one, blocking or asyncio
    metrics.opentelemetry()                 # metrics, and a span for each call of acquire

docs/operations/metrics.md lists what is measured. While it is off it costs nothing.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from locknut import opening
from locknut.errors import ConfigurationError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from prometheus_client import CollectorRegistry

    from locknut.faces.events import Sink
    from locknut.metrics.measurements import Measurements

__all__ = ["opentelemetry", "prometheus"]

MOST_FAMILIES = 200
_mutex = threading.RLock()
_sinks: WeakKeyDictionary[Any, Sink] = WeakKeyDictionary()
"""By registry, meter provider or tracer provider: what is turned on twice is counted once."""


def prometheus(
    locks: opening.Opened | None = None,
    *,
    registry: CollectorRegistry | None = None,
    families: int = MOST_FAMILIES,
) -> Callable[[], None]:
    """Count in `prometheus_client`: what one Locks does, or without one all of them.

    `registry`: default its own default. `families`: how many values the label `lock` may have; the
    names that come after them count as `*`. Returns a function that turns it off again.
    """
    _check(locks, families)
    try:
        import prometheus_client
    except ImportError as error:
        raise _missing("prometheus_client", "prometheus") from error
    from locknut.metrics.prometheus_values import PrometheusValues

    place = registry if registry is not None else prometheus_client.REGISTRY
    return opening.observe(_measurements(place, partial(PrometheusValues, place), families), locks)


def opentelemetry(
    locks: opening.Opened | None = None,
    *,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
    traces: bool = True,
    families: int = MOST_FAMILIES,
) -> Callable[[], None]:
    """Measure with OpenTelemetry: what one Locks does, or without one all of them.

    The providers are the global ones by default. `traces=False`: no spans. `families`: as in
    `prometheus`. Returns a function that turns it off again.
    """
    _check(locks, families)
    try:
        from opentelemetry import metrics, trace
    except ImportError as error:
        raise _missing("opentelemetry", "otel") from error
    from locknut.metrics.opentelemetry_values import OpenTelemetryValues
    from locknut.metrics.spans import Spans

    meters = meter_provider if meter_provider is not None else metrics.get_meter_provider()
    meter = meters.get_meter("locknut")
    measured = _measurements(meters, partial(OpenTelemetryValues, meter), families)
    ends = [opening.observe(measured, locks)]
    if traces:
        tracers = tracer_provider if tracer_provider is not None else trace.get_tracer_provider()
        spans = _sink(tracers, lambda: Spans(tracers.get_tracer("locknut")))
        ends.append(opening.observe(spans, locks))

    def stop() -> None:
        for end in ends:
            end()

    return stop


def _check(locks: opening.Opened | None, families: int) -> None:
    if locks is not None and not isinstance(locks, opening.Opened):
        message = f"metrics are for a Locks, as connect() returns it; got {locks!r}"
        raise ConfigurationError(message)
    if isinstance(families, bool) or not isinstance(families, int) or families < 1:
        raise ConfigurationError(f"families must be a positive int, got {families!r}")


def _measurements(place: Any, values: Callable[[], Any], families: int) -> Measurements:
    from locknut.metrics.measurements import Measurements

    made = _sink(place, lambda: Measurements(values(), families))
    if not isinstance(made, Measurements) or made.most_families != families:
        message = f"metrics are on already, with families={getattr(made, 'most_families', 0)}"
        raise ConfigurationError(message)
    return made


def _sink(place: Any, make: Callable[[], Sink]) -> Any:
    with _mutex:
        if place not in _sinks:
            _sinks[place] = make()
        return _sinks[place]


def _after_fork() -> None:
    global _mutex  # noqa: PLW0603  # the parent's may be held by a thread that is not here
    _mutex = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _missing(package: str, extra: str) -> ConfigurationError:
    message = f'{package} is not installed; get it with: pip install "locknut[{extra}]"'
    return ConfigurationError(message)
