"""The metrics of the catalogue in OpenTelemetry, by its API alone: who exports them is the user's
choice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from locknut.metrics.catalogue import METRICS, Metric

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from locknut.metrics.measurements import Labels, Series

PREFIX = "locknut."


class OpenTelemetryValues:
    """The values of one meter."""

    def __init__(self, meter: Meter):
        self._made = {each: _make(each, meter) for each in METRICS}

    def series(self, metric: Metric, labels: Labels) -> Series:
        names = [PREFIX + label for label in metric.labels]
        named, made = dict(zip(names, labels, strict=True)), self._made[metric]
        if metric.kind == "gauge":
            return lambda change, _: made.add(change, named)
        take = made.add if metric.kind == "counter" else made.record
        return partial(take, attributes=named)


def _make(metric: Metric, meter: Meter) -> Any:
    given = {"unit": metric.unit, "description": metric.help}
    if metric.kind == "counter":
        return meter.create_counter(metric.otel, **given)
    if metric.kind == "gauge":
        return meter.create_up_down_counter(metric.otel, **given)
    buckets = list(metric.buckets)
    return meter.create_histogram(metric.otel, **given, explicit_bucket_boundaries_advisory=buckets)
