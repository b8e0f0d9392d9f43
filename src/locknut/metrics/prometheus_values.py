"""The metrics of the catalogue in `prometheus_client`, in a registry of the user's choice.

Several processes that share a folder (PROMETHEUS_MULTIPROC_DIR) need nothing else: gauges add up
over the processes that live.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import prometheus_client

from locknut.metrics.catalogue import METRICS, Metric

if TYPE_CHECKING:
    from locknut.metrics.measurements import Labels, Series


class PrometheusValues:
    """The values of one registry."""

    def __init__(self, registry: prometheus_client.CollectorRegistry):
        self._made = {each: _make(each, registry) for each in METRICS if each.name}

    def series(self, metric: Metric, labels: Labels) -> Series:
        if not metric.name:
            return _nothing
        child = self._made[metric].labels(*labels)
        if metric.kind == "gauge":
            return lambda _, level: child.set(level)
        found: Series = child.inc if metric.kind == "counter" else child.observe
        return found


def _nothing(_: float) -> None:
    """For what is not there."""


def _make(metric: Metric, registry: prometheus_client.CollectorRegistry) -> Any:
    given: dict[str, Any] = {"labelnames": metric.labels, "registry": registry}
    if metric.kind == "counter":
        return prometheus_client.Counter(metric.name, metric.help, **given)
    if metric.kind == "gauge":
        given["multiprocess_mode"] = "livesum"
        return prometheus_client.Gauge(metric.name, metric.help, **given)
    return prometheus_client.Histogram(metric.name, metric.help, buckets=metric.buckets, **given)
