"""Traces in OpenTelemetry: one span for each call of acquire, and a mark for what ended in trouble.

A span is made when the outcome is known, with the time at which the call began: the caller's own
span is its parent, because its thread or task reports the outcome. Names of locks are attributes
of a span; they are never a label of a metric.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import Link, SpanKind, Status, StatusCode

from locknut.core.families import family

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext, Tracer

    from locknut.core.values import Event, RenewalReport
    from locknut.faces.events import Candidacy, CommandReport

OUTCOMES: Final = {"granted": "acquired", "handed_over": "acquired", "timed_out": "timeout"}
REMEMBERED: Final = 10_000
"""Holds whose span is still known when something happens to them: more are not kept."""


class Spans:
    """All spans of one tracer: a `Sink`."""

    def __init__(self, tracer: Tracer):
        self.tracer = tracer

    def observer(self) -> SpanObserver:
        return SpanObserver(self)


class SpanObserver:
    """Makes the spans of one Locks."""

    def __init__(self, sink: Spans):
        self.sink = sink
        self._granted: OrderedDict[tuple[str, int | None], SpanContext] = OrderedDict()

    def on_event(self, event: Event) -> None:
        if event.kind in OUTCOMES or event.kind == "failed":
            self._acquire(event)
        elif event.kind in {"lost", "abandoned", "broken"}:
            self._trouble(event)
        elif event.kind in {"released", "detached"}:
            self._granted.pop((event.name, event.fence), None)

    def on_renewal(self, report: RenewalReport) -> None:
        """There are too many of them."""

    def on_command(self, report: CommandReport) -> None:
        """The instrumentation of a driver makes spans of its own."""

    def on_election(self, report: Candidacy) -> None:
        """Its acquire is a span already."""

    def stop(self) -> None:
        self._granted.clear()

    def _acquire(self, event: Event) -> None:
        outcome = OUTCOMES.get(event.kind) or _why(event)
        if outcome == "timeout" and not event.contended:
            outcome = "busy"
        now = time.time_ns()
        span = self.sink.tracer.start_span(
            f"locknut.acquire {family(event.name)}",
            kind=SpanKind.CLIENT,
            attributes={**_attributes(event), "locknut.outcome": outcome},
            start_time=now - int((event.waited or 0.0) * 1e9),
        )
        if outcome == "error":
            span.set_status(Status(StatusCode.ERROR, event.reason))
        span.end(now)
        if outcome == "acquired" and span.get_span_context().is_valid:
            self._granted[event.name, event.fence] = span.get_span_context()
            while len(self._granted) > REMEMBERED:
                self._granted.popitem(last=False)

    def _trouble(self, event: Event) -> None:
        """A span of no length: that of the acquire is over, and nothing can be added to it."""
        of_hold = self._granted.pop((event.name, event.fence), None)
        span = self.sink.tracer.start_span(
            f"locknut.{event.kind} {family(event.name)}",
            kind=SpanKind.CLIENT,
            links=[Link(of_hold)] if of_hold is not None else None,
            attributes={**_attributes(event), "locknut.reason": event.reason},
        )
        if event.kind != "broken":
            span.set_status(Status(StatusCode.ERROR, event.reason))
        span.end()


def _why(event: Event) -> str:
    return "cancelled" if event.reason == "cancelled" else "error"


def _attributes(event: Event) -> dict[str, Any]:
    facts = {
        "locknut.backend": event.backend,
        "locknut.name": event.name,
        "locknut.mode": event.mode.value,
        "locknut.fence": event.fence,
        "locknut.waited": event.waited,
        "locknut.held": event.held,
    }
    return {name: value for name, value in facts.items() if value is not None}
