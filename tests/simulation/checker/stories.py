"""Sorts a history into stories: one acquire call each, and everything its caller saw after it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from locknut.core.values import Mode
from tests.simulation.checker.history import Event, Kind

OUTCOMES = frozenset({Kind.ACQUIRED, Kind.TIMED_OUT, Kind.CANCELLED, Kind.FAILED})
ENDINGS = frozenset({Kind.RELEASE_CALLED, Kind.LOST, Kind.DETACHED, Kind.CRASHED})
ENGINE = frozenset({Kind.GRANTED, Kind.EXTENDED, Kind.FREED, Kind.WITHDRAWN})
RESOURCE = frozenset({Kind.ENTERED, Kind.READ, Kind.WROTE, Kind.REFUSED})
_VOIDING = frozenset({Kind.FORGOT, Kind.BROKEN, Kind.STEPPED, Kind.BEHIND, Kind.CUT})
_OF_A_STORY = frozenset(
    {
        Kind.CALLED,
        Kind.WAITING,
        Kind.RENEWED,
        Kind.CHECKED,
        Kind.AT_RISK,
        Kind.DOWNGRADED,
        Kind.RELEASED,
    }
    | OUTCOMES
    | ENDINGS - {Kind.CRASHED}
)


@dataclass(slots=True)
class Story:
    """One acquire call; with a hold in it, if it was granted."""

    called: Event
    events: list[Event] = field(default_factory=list)
    outcome: Event | None = None
    got: Event | None = None
    """The outcome, if it was a grant."""
    fence: int = 0
    ending: Event | None = None
    until: float = inf
    downgraded: float = inf

    @property
    def name(self) -> str:
        return self.called.name

    @property
    def end(self) -> float:
        """When the holder no longer believes: it let go, was told, died, or its clock says so."""
        return min(self.until, self.ending.t if self.ending else inf)

    def add(self, event: Event) -> None:
        self.events.append(event)
        kind = event.kind
        if kind in OUTCOMES and self.outcome is None:
            self.outcome = event
            if kind is Kind.ACQUIRED:
                self.got, self.fence = event, event.fence or 0
        if kind is Kind.ACQUIRED or kind is Kind.RENEWED:
            self.until = inf if event.until is None else event.until
        elif kind is Kind.DOWNGRADED:
            self.downgraded = event.t
        elif kind in ENDINGS and self.ending is None:
            self.ending = event


@dataclass(slots=True)
class Span:
    """A stretch of validity in one mode."""

    start: float
    end: float
    mode: Mode
    story: Story

    def same_owner(self, other: Span) -> bool:
        mine = self.story.called.owner
        return mine is not None and mine == other.story.called.owner


class Stories:
    """A history, sorted: what rules ask for."""

    def __init__(self, history: Iterable[Event]) -> None:
        self.events = sorted(history, key=lambda event: event.t)
        self.by_name: dict[str, list[Story]] = defaultdict(list)
        self.engine: dict[str, list[Event]] = defaultdict(list)
        self.resource: dict[str, list[Event]] = defaultdict(list)
        self.pauses: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.crashes: dict[str, Event] = {}
        self.disturbed: list[tuple[float, float]] = []
        self.left: list[Event] = []
        self.ended: float | None = None
        self.odd: list[Event] = []
        self._voids: dict[tuple[Kind, str], list[float]] = defaultdict(list)
        self._open: dict[str, Story] = {}
        for event in self.events:
            self._sort(event)
        self.last = self.events[-1].t if self.events else 0.0

    def __iter__(self) -> Iterator[Story]:
        for stories in self.by_name.values():
            yield from stories

    def voided(self, kinds: frozenset[Kind], name: str, since: float, until: float) -> bool:
        """Whether something of these kinds befell the name in this stretch of time."""
        return self.voids(kinds, name, since, until) > 0

    def voids(self, kinds: frozenset[Kind], name: str, since: float, until: float) -> int:
        """How often."""
        return sum(
            _within(self._voids.get((kind, of), []), since, until)
            for kind in kinds
            for of in (name, "")
        )

    def asleep(self, who: str, since: float, until: float) -> bool:
        """Whether the process was stopped, or dead, at some moment in this stretch of time."""
        crash = self.crashes.get(who)
        if crash is not None and crash.t <= until:
            return True
        return any(start <= until and end >= since for start, end in self.pauses.get(who, ()))

    def calm(self, since: float, until: float) -> bool:
        """Whether no fault was at work in this stretch of time."""
        return not any(start < until and end > since for start, end in self.disturbed)

    def _sort(self, event: Event) -> None:
        kind = event.kind
        if kind in _OF_A_STORY:
            self._tell(event)
        elif kind in ENGINE:
            self.engine[event.name].append(event)
        elif kind in RESOURCE:
            self.resource[event.name].append(event)
        elif kind in _VOIDING:
            self._voids[kind, event.name].append(event.t)
        else:
            self._of_the_run(event)

    def _tell(self, event: Event) -> None:
        if event.kind is Kind.CALLED and event.hold not in self._open:
            story = self._open[event.hold] = Story(event)
            self.by_name[event.name].append(story)
        elif event.hold in self._open:
            self._open[event.hold].add(event)
        else:
            self.odd.append(event)

    def _of_the_run(self, event: Event) -> None:
        kind = event.kind
        if kind is Kind.CRASHED:
            self._crash(event)
        elif kind is Kind.LEFT:
            self.left.append(event)
        elif kind is Kind.ENDED:
            self.ended = event.t
        elif kind is Kind.PAUSED:
            self.pauses[event.who].append((event.t, inf))
        elif kind is Kind.DISTURBED:
            self.disturbed.append((event.t, inf))
        elif kind is Kind.RESUMED:
            _close(self.pauses[event.who], event.t)
        elif kind is Kind.CALM:
            _close(self.disturbed, event.t)

    def _crash(self, event: Event) -> None:
        self.crashes[event.who] = event
        for story in self._open.values():
            if story.called.who == event.who:
                story.add(event)


def _close(stretches: list[tuple[float, float]], t: float) -> None:
    """The latest stretch that is still open ends now."""
    for i in reversed(range(len(stretches))):
        if stretches[i][1] == inf:
            stretches[i] = (stretches[i][0], t)
            return


def _within(times: list[float], since: float, until: float) -> int:
    return bisect_right(times, until) - bisect_left(times, since) if times else 0


def spans(stories: Iterable[Story]) -> list[Span]:
    """The stretches of validity that are not empty, in order of their start."""
    found = [span for story in stories for span in _of(story)]
    return sorted(found, key=lambda span: span.start)


def _of(story: Story) -> Iterator[Span]:
    got = story.got
    if got is None:
        return
    turn = min(story.downgraded, story.end)
    if got.t < turn:
        yield Span(got.t, turn, story.called.mode, story)
    if turn < story.end:
        yield Span(turn, story.end, Mode.SHARED, story)
