"""The rules of liveness, (f) and (g): what must happen once nobody is faulty."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from math import inf

from locknut.core.values import Mode
from tests.simulation.checker.history import AMONG, BESIDE, Event, Kind
from tests.simulation.checker.stories import Stories, Story
from tests.simulation.checker.verdict import Assumptions, Violation


@dataclass(frozen=True, slots=True, eq=False)
class _Stretch:
    """From when to when somebody holds a name, or wants it, or faults are at work."""

    start: float
    end: float
    mode: Mode = Mode.EXCLUSIVE
    permits: int = 1
    owner: str | None = None
    events: tuple[Event, ...] = ()


_Now = dict[_Stretch, None]
"""A set that keeps its order, so that the same history gives the same words."""


def progress(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """(f) Never free and wanted for longer than the bound while nobody is faulty."""
    faults = [_Stretch(start, end) for start, end in stories.disturbed]
    for name, of_name in stories.by_name.items():
        wants = [want for story in of_name for want in _wants(story, stories)]
        if given.free_within is not None and name in stories.engine:
            holds = list(_engine_holds(stories.engine[name]))
            for since, t, waiting in _stuck(holds, wants, faults, given.free_within):
                why = f"{name}: free and wanted for {t - since:.3f} s, since {since:.6f}"
                yield Violation("f", why, waiting)
        if given.idle_within is not None:
            holds = list(_believed_holds(of_name))
            for since, t, waiting in _stuck(holds, wants, faults, given.idle_within):
                why = f"{name}: wanted and used by nobody for {t - since:.3f} s, since {since:.6f}"
                yield Violation("f", why, waiting)


def _wants(story: Story, stories: Stories) -> Iterator[_Stretch]:
    """From the call to its outcome, without the time in which its process was stopped."""
    called = story.called
    if called.note == BESIDE:
        return
    end = min(story.outcome.t if story.outcome else stories.last, story.end)
    start = called.t
    for stopped, resumed in [*stories.pauses.get(called.who, ()), (end, inf)]:
        if start < min(stopped, end):
            stop = min(stopped, end)
            yield _Stretch(start, stop, called.mode, called.permits, called.owner, (called,))
        start = max(start, resumed)


def _engine_holds(events: Iterable[Event]) -> Iterator[_Stretch]:
    since: dict[str, Event] = {}
    until: dict[str, float] = {}
    for event in events:
        if event.kind is Kind.WITHDRAWN:
            continue
        if event.kind is Kind.FREED:
            if event.hold in since:
                yield _held(since.pop(event.hold), min(event.t, until[event.hold]))
            continue
        since.setdefault(event.hold, event)
        until[event.hold] = inf if event.until is None else event.until
    for hold, granted in since.items():
        yield _held(granted, until[hold])


def _held(granted: Event, end: float) -> _Stretch:
    return _Stretch(granted.t, end, granted.mode, granted.permits, granted.owner)


def _believed_holds(stories: Iterable[Story]) -> Iterator[_Stretch]:
    """From the grant to the return of the release; what was lost may be kept for its ttl."""
    for story in stories:
        if story.called.note == AMONG:
            called = story.called
            end = story.outcome.t if story.outcome else story.end
            yield _Stretch(called.t, end, called.mode, called.permits, called.owner)
        if story.got is not None:
            released = next((e.t for e in story.events if e.kind is Kind.RELEASED), inf)
            crashed = next((e.t for e in story.events if e.kind is Kind.CRASHED), inf)
            end = min(released, story.until) if story.until < inf else min(released, crashed)
            called = story.called
            yield _Stretch(story.got.t, end, called.mode, called.permits, called.owner)


def _stuck(
    holds: list[_Stretch], wants: list[_Stretch], faults: list[_Stretch], bound: float
) -> Iterator[tuple[float, float, tuple[Event, ...]]]:
    """The stretches, longer than the bound, in which somebody could have entered and did not."""
    now: tuple[_Now, _Now, _Now] = ({}, {}, {})
    since = inf
    for t, edges in groupby(_edges(holds, wants, faults), key=lambda edge: edge[0]):
        if since < inf and t - since > bound:
            yield since, t, tuple(event for want in now[1] for event in want.events)
        entered = False
        for _, starts, which, stretch in edges:
            entered |= bool(starts) and which == 0
            if starts:
                now[which][stretch] = None
            else:
                now[which].pop(stretch, None)
        free = not now[2] and _enterable(now[0], now[1])
        since = inf if not free else t if entered else min(since, t)


def _edges(*groups: list[_Stretch]) -> list[tuple[float, int, int, _Stretch]]:
    """Starts before ends at the same moment, so that a stretch of no length leaves no trace."""
    edges: list[tuple[float, int, int, _Stretch]] = []
    for which, group in enumerate(groups):
        edges += [(stretch.start, 1, which, stretch) for stretch in group]
        edges += [(stretch.end, 0, which, stretch) for stretch in group if stretch.end < inf]
    return sorted(edges, key=lambda edge: (edge[0], -edge[1]))


def _enterable(holds: _Now, wants: _Now) -> bool:
    """Whether whoever is first could enter; a waiting writer keeps readers back."""
    writers = [want for want in wants if want.mode is Mode.EXCLUSIVE]
    first = writers or list(wants)
    return bool(first) and all(_admissible(want, holds) for want in first)


def _admissible(want: _Stretch, holds: _Now) -> bool:
    others = [hold for hold in holds if hold.owner is None or hold.owner != want.owner]
    if want.mode is Mode.EXCLUSIVE:
        return not others
    if any(hold.mode is Mode.EXCLUSIVE for hold in others):
        return False
    return want.mode is Mode.SHARED or len(others) < want.permits


def turns(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """(f) Who began to wait before another asked enters before him, where that is promised."""
    if not given.fifo:
        return
    for name, of_name in stories.by_name.items():
        waits = sorted(_fair_waits(of_name), key=lambda wait: wait[0])
        slowest = list(accumulate(waits, _slower))
        latest = 0
        for story in sorted(of_name, key=lambda story: story.called.t):
            while latest < len(waits) and waits[latest][0] < story.called.t:
                latest += 1
            if not latest or story.got is None or not story.called.fair:
                continue
            since, served, earlier = slowest[latest - 1]
            calm = given.fifo_amid_faults or stories.calm(since, story.got.t)
            fair_play = calm and not stories.asleep(earlier.called.who, since, story.got.t)
            if served > story.got.t and story.called.mode is Mode.EXCLUSIVE and fair_play:
                events = (*earlier.events[:2], story.called, story.got)
                yield Violation("f", f"{name}: served before somebody who waited already", events)


_Wait = tuple[float, float, Story]


def _slower(one: _Wait, other: _Wait) -> _Wait:
    return one if one[1] >= other[1] else other


LEAVING = 0.5
"""So much before the caller hears that it gave up, it may have left the line already."""


def _fair_waits(stories: Iterable[Story]) -> Iterator[_Wait]:
    """Since when somebody waits in a fair line, and until when for certain."""
    for story in stories:
        if story.called.fair and story.called.mode is Mode.EXCLUSIVE:
            since = next((e.t for e in story.events if e.kind is Kind.WAITING), None)
            if since is not None:
                yield since, _stayed(story), story


def _stayed(story: Story) -> float:
    if story.outcome is None:
        return story.end
    return story.outcome.t if story.got else story.outcome.t - LEAVING


def leftovers(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """(g) Nothing behind after the last event: no hold, no ghost in a line, nobody waiting."""
    for event in stories.left:
        yield Violation("g", f"{event.name}: left behind: {event.note}", (event,))
    yield from _orphans(stories, given)
    if stories.ended is None:
        return
    for story in stories:
        if story.called.who in stories.crashes:
            continue
        if story.outcome is None:
            yield Violation("g", f"{story.name}: an acquire never came back", (story.called,))
        elif story.got and story.end == inf:
            yield Violation("g", f"{story.name}: never released", tuple(story.events))


def _orphans(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """A claim that was taken back holds nothing and is never granted: nobody releases it (L3)."""
    void = given.ends_holds
    for name, events in stories.engine.items():
        withdrawn: dict[str, Event] = {}
        held: dict[str, Event] = {}
        for event in events:
            before = withdrawn.get(event.hold)
            if event.kind is Kind.WITHDRAWN:
                withdrawn.setdefault(event.hold, event)
            elif event.kind is Kind.FREED:
                yield from _outlived(name, held.pop(event.hold, None), before, event.t)
            else:
                held[event.hold] = event
                if before and not stories.voided(void, name, before.t, event.t):
                    why = f"{name}: {event.kind} after it had been taken back"
                    yield Violation("g", why, (before, event))
        for claim, grant in held.items():
            yield from _outlived(name, grant, withdrawn.get(claim), inf)


def _outlived(
    name: str, grant: Event | None, withdrawn: Event | None, freed: float
) -> Iterator[Violation]:
    """Whether a hold stayed after its own claim had been taken back."""
    if grant is not None and withdrawn is not None and grant.t <= withdrawn.t < freed:
        until = inf if grant.until is None else grant.until
        if withdrawn.t < until:
            yield Violation("g", f"{name}: held on after it was taken back", (grant, withdrawn))
