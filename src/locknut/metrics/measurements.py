"""What is measured of a lock's life: from events and reports to the metrics of the catalogue.

Everything goes through one queue. Whoever reports works it off, so that metrics need no thread. A
finalizer that releases a lock while its own thread is in the middle of a measurement only leaves a
report there: the mutexes of other people's metrics would wait for themselves.
"""

from __future__ import annotations

import os
import weakref
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from locknut.core.families import Families
from locknut.core.values import Event, Mode, RenewalReport
from locknut.faces.events import Candidacy, CommandReport
from locknut.metrics.catalogue import (
    ACQUIRE,
    BACKEND,
    BACKEND_ERRORS,
    CONTENDED,
    HELD,
    HOLD,
    KINDS,
    LEADER,
    LOST,
    MARGIN,
    MARGIN_RATIO,
    OTHER,
    REASONS,
    RENEW,
    SKIPPED,
    TIMEOUTS,
    WAIT,
    WAITING,
    Metric,
)
from locknut.runtimes.cpython import members
from locknut.runtimes.threads import Guard

Labels = tuple[str, ...]
Series = Callable[..., object]
"""Takes the values of one metric with its labels: how many more there are of a counter, one value
of a histogram, or by how much a gauge changed and to which level."""


class Values(Protocol):
    """A system that keeps metrics. It gets one call at a time."""

    def series(self, metric: Metric, labels: Labels) -> Series:
        """Return what takes the values. Asked once for each: to find it may cost more than to use
        it.
        """


class AllSeries(dict[tuple[Metric, Labels], Series]):
    """Those that were used, found without a call."""

    __slots__ = ("system",)

    def __init__(self, values: Values):
        self.system = values

    def __missing__(self, place: tuple[Metric, Labels]) -> Series:
        made = self[place] = self.system.series(*place)
        return made


class Measurements:
    """All that is measured for one system: a `Sink`."""

    def __init__(self, values: Values, most_families: int):
        self.series = AllSeries(values)
        self.most_families = most_families
        self._families = Families(most_families)
        self._levels: Counter[tuple[Metric, Labels]] = Counter()
        self._losable: set[Labels] = set()
        self._queue: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._observers: weakref.WeakSet[LocksObserver] = weakref.WeakSet()
        self.mutex = Guard()
        _all.add(self)

    def observer(self) -> LocksObserver:
        made = LocksObserver(self)
        self._observers.add(made)
        return made

    def take(self, measure: Callable[[Any], None], report: Any) -> None:
        self._queue.append((measure, report))
        if self.mutex.inside():
            return  # this thread is at it already, further up
        with self.mutex:
            while self._queue:
                measure, report = self._queue.popleft()
                measure(report)

    def labels(self, backend: str, name: str, mode: Mode) -> Labels:
        return backend, self._families(name), mode._value_  # `value` is a call

    def election(self, backend: str, name: str) -> Labels:
        return backend, self._families(name)

    def change(self, metric: Metric, labels: Labels, by: int) -> None:
        """Raise or lower a gauge."""
        place = metric, labels
        level = self._levels[place] = self._levels[place] + by
        self.series[place](by, level)

    def losable(self, labels: Labels) -> None:
        """What may be lost from now on has counters that stand at 0: an increase from nothing to 1
        is none for whoever asks for the increase, so that nobody would hear of the first loss.
        """
        if labels not in self._losable:
            self._losable.add(labels)
            for reason in REASONS:
                self.series[LOST, (*labels, reason)](0)

    def forked(self) -> None:
        """In a forked child: what the parent holds and waits for is not ours."""
        self._queue.clear()
        for (metric, labels), level in self._levels.items():
            if level:
                self.series[metric, labels](-level, 0)
        self._levels.clear()
        for each in members(self._observers):
            each.forked()


class LocksObserver:
    """Measures one Locks."""

    def __init__(self, sink: Measurements):
        self.sink = sink
        self.on_event = partial(sink.take, self._event)
        self.on_renewal = partial(sink.take, self._renewal)
        self.on_command = partial(sink.take, self._command)
        self.on_election = partial(sink.take, self._election)
        self._held: dict[tuple[str, int | None], Labels] = {}
        """What is held now, by name and fence: a hold begins once and ends once, whatever is
        reported of it."""
        self._waiting: Counter[Labels] = Counter()
        self._elections: set[str] = set()
        """The names whose holder leads."""
        self._led: dict[tuple[str, int | None], Labels] = {}
        """What is led now, as in `_held`."""

    def stop(self) -> None:
        self.sink.take(self._forget, None)

    def _forget(self, _: object) -> None:
        for labels in self._held.values():
            self.sink.change(HELD, labels, -1)
        for labels in self._led.values():
            self.sink.change(LEADER, labels, -1)
        for labels, count in self._waiting.items():
            self.sink.change(WAITING, labels, -count)
        self.forked()

    def forked(self) -> None:
        """In a forked child nothing is held, and nobody waits."""
        self._held.clear()
        self._led.clear()
        self._waiting.clear()

    def _event(self, event: Event) -> None:
        labels = self.sink.labels(event.backend, event.name, event.mode)
        match event.kind:
            case "waiting":
                self._waiting[labels] += 1
                self.sink.change(WAITING, labels, 1)
                self.sink.series[CONTENDED, labels](1)
            case "granted" | "handed_over":
                self._begun(event, labels)
            case "timed_out" | "failed":
                self._given_up(event, labels)
            case "released" | "lost" | "abandoned" | "detached":
                self._ended(event, labels)
            case "skipped":
                self.sink.series[SKIPPED, labels](1)

    def _begun(self, event: Event, labels: Labels) -> None:
        if event.waited is not None:  # else it was attached
            self._outcome(event, labels, "acquired")
        if (event.name, event.fence) not in self._held:
            self._held[event.name, event.fence] = labels
            self.sink.change(HELD, labels, 1)
            self.sink.losable(labels)
            if event.name in self._elections:
                election = self.sink.election(event.backend, event.name)
                self._led[event.name, event.fence] = election
                self.sink.change(LEADER, election, 1)

    def _given_up(self, event: Event, labels: Labels) -> None:
        if event.kind == "failed":
            outcome = "cancelled" if event.reason == "cancelled" else "error"
        else:
            outcome = "timeout" if event.contended else "busy"
        self._outcome(event, labels, outcome)
        if outcome == "timeout":
            self.sink.series[TIMEOUTS, labels](1)
        elif outcome == "busy":
            self.sink.series[CONTENDED, labels](1)

    def _outcome(self, event: Event, labels: Labels, outcome: str) -> None:
        series = self.sink.series
        series[ACQUIRE, (*labels, outcome)](1)
        if event.waited is not None and outcome in {"acquired", "timeout"}:
            series[WAIT, labels](event.waited)
        if event.contended and self._waiting[labels]:  # else it began to wait before we observed
            self._waiting[labels] -= 1
            self.sink.change(WAITING, labels, -1)

    def _ended(self, event: Event, labels: Labels) -> None:
        if event.held is not None:
            self.sink.series[HOLD, labels](event.held)
        begun = self._held.pop((event.name, event.fence), None)
        if begun is not None:
            self.sink.change(HELD, begun, -1)
        election = self._led.pop((event.name, event.fence), None)
        if election is not None:
            self.sink.change(LEADER, election, -1)
        if event.kind in {"lost", "abandoned"}:
            reason = event.reason.partition(":")[0]
            reason = reason if reason in REASONS else OTHER
            self.sink.series[LOST, (*labels, reason)](1)

    def _election(self, report: Candidacy) -> None:
        self._elections.add(report.name)
        self.sink.change(LEADER, self.sink.election(report.backend, report.name), 0)

    def _renewal(self, report: RenewalReport) -> None:
        labels = self.sink.labels(report.backend, report.name, report.mode)
        series = self.sink.series
        series[RENEW, (*labels, report.outcome)](1)
        if report.left is not None:
            series[MARGIN, labels](report.left)
            if report.ttl:
                series[MARGIN_RATIO, labels](report.left / report.ttl)

    def _command(self, report: CommandReport) -> None:
        labels = report.backend, report.command
        self.sink.series[BACKEND, labels](report.seconds)
        if isinstance(report.error, Exception):
            kind = type(report.error).__name__
            kind = kind if kind in KINDS else OTHER
            self.sink.series[BACKEND_ERRORS, (*labels, kind)](1)


_all: weakref.WeakSet[Measurements] = weakref.WeakSet()
_at_fork: list[Measurements] = []


def _before_fork() -> None:
    """No thread is in the middle of a measurement while the process forks: the child would get the
    mutexes of other people's metrics as they are, with nobody to open them again.
    """
    _at_fork[:] = members(_all)
    for each in _at_fork:
        each.mutex.acquire()


def _after_fork() -> None:
    while _at_fork:
        _at_fork.pop().mutex.release()


def _after_fork_in_child() -> None:
    for each in _at_fork:
        each.forked()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork,
        after_in_child=_after_fork_in_child,
    )
