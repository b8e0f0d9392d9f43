"""The rules of safety, (a) to (e): what must never happen, whatever the faults."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate
from math import inf

from locknut.core.values import FENCE_STEP, Mode
from tests.simulation.checker.history import ATTACHED, Event, Kind
from tests.simulation.checker.stories import Span, Stories, Story, spans
from tests.simulation.checker.verdict import Assumptions, Violation


def exclusion(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """(a) A sweep over the stretches of validity of each name. What was broken is a hold, and
    whoever has it by then may have been called after that: the hold was handed over inside.
    """
    for name, of_name in stories.by_name.items():
        began = _beginnings(story for story in of_name if story.got and story.got.fence is not None)
        for older, younger, why in _clashes(spans(of_name)):
            since = min(_began(each.story, began) for each in (older, younger))
            until = younger.start
            if not stories.voided(given.exclusion_void_after, name, since, until):
                yield Violation("a", f"{name}: {why}", (*older.story.events, *younger.story.events))


def _clashes(stretches: list[Span]) -> Iterator[tuple[Span, Span, str]]:
    """Pairs that were valid together and must not have been."""
    edges = sorted(
        [(span.start, 1, i) for i, span in enumerate(stretches)]
        + [(span.end, 0, i) for i, span in enumerate(stretches)]
    )
    valid: dict[int, Span] = {}
    for _, starts, i in edges:
        if not starts:
            del valid[i]
            continue
        span = stretches[i]
        valid[i] = span
        for other in valid.values():
            if other is not span and other.story is not span.story and _exclude(span, other):
                yield other, span, "two valid holds that exclude each other"
        yield from _crowd(span, list(valid.values()))


def _exclude(one: Span, other: Span) -> bool:
    exclusive = one.mode is Mode.EXCLUSIVE or other.mode is Mode.EXCLUSIVE
    return exclusive and not one.same_owner(other)


def _crowd(newest: Span, valid: list[Span]) -> Iterator[tuple[Span, Span, str]]:
    """A permit is judged by its own limit, when it is given."""
    limit = newest.story.called.permits
    if newest.mode is Mode.PERMIT and sum(span.mode is Mode.PERMIT for span in valid) > limit:
        yield valid[0], newest, f"more than {limit} valid permits"


def fences(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """(b) Unique; in the order of real time; and in the order of validity, where that is one."""
    void = given.fences_void_after
    old = frozenset({Kind.FORGOT}) if given.old_holds_come_back else frozenset()
    for name, of_name in stories.by_name.items():
        fenced = [story for story in of_name if story.got and story.got.fence is not None]
        began = _beginnings(fenced)
        for pair in (*_twins(fenced), *_late_comers(fenced)):
            excuses = void | old if _old_hold(pair) else void
            if _handed_over(pair):
                excuses |= given.exclusion_void_after
            yield from _judged(stories, excuses, name, [pair], began)
        in_turn = _successors(spans(fenced))
        yield from _judged(stories, void | given.exclusion_void_after, name, in_turn, began)


def _beginnings(fenced: Iterable[Story]) -> dict[int, float]:
    """When the first one that had a hold asked for it; others get it inside the process."""
    first: dict[int, float] = {}
    for story in fenced:
        raw = story.fence // FENCE_STEP
        first[raw] = min(story.called.t, first.get(raw, inf))
    return first


def _began(story: Story, began: dict[int, float]) -> float:
    fenced = story.got is not None and story.got.fence is not None
    return began[story.fence // FENCE_STEP] if fenced else story.called.t


def _judged(
    stories: Stories,
    void: frozenset[Kind],
    name: str,
    pairs: Iterable[Pair],
    began: dict[int, float],
) -> Iterator[Violation]:
    for one, other, why in pairs:
        since = min(began[story.fence // FENCE_STEP] for story in (one, other))
        until = max((story.got or story.called).t for story in (one, other))
        if not stories.voided(void, name, since, until):
            yield Violation("b", f"{name}: {why}", (*one.events[:2], *other.events[:2]))


Pair = tuple[Story, Story, str]


def _greater(one: Story, other: Story) -> Story:
    return one if one.fence >= other.fence else other


def _old_hold(pair: Pair) -> bool:
    """Whether somebody went on with a hold, and so with a number, that was there already."""
    called = pair[0].called, pair[1].called
    return any(each.owner is not None or each.note == ATTACHED for each in called)


def _handed_over(pair: Pair) -> bool:
    """Whether the later one got a hold inside its process, and so below the number of whoever came
    in after a break: the process learns of that afterwards. A guard refuses the smaller number.
    """
    one, other, _ = pair
    return one.fence != other.fence and other.fence % FENCE_STEP != 0


def _one_hold(one: Story, other: Story) -> bool:
    """Co-owners share their hold and its fence; who attaches goes on with the detached one's."""
    if one.ending is not None and one.ending.kind is Kind.DETACHED:
        return True
    return one.called.owner is not None and one.called.owner == other.called.owner


def _twins(fenced: Iterable[Story]) -> Iterator[Pair]:
    first: dict[int, Story] = {}
    for story in fenced:
        twin = first.setdefault(story.fence, story)
        if twin is not story and not _one_hold(twin, story):
            yield twin, story, f"fence {story.fence} was given twice"
        first[story.fence] = story


def _late_comers(fenced: list[Story]) -> Iterator[Pair]:
    """Whoever called after another's acquire had returned has the greater fence."""
    returned = sorted(fenced, key=lambda story: story.got.t if story.got else inf)
    times = [story.got.t if story.got else inf for story in returned]
    best = list(accumulate(returned, _greater))
    for story in returned:
        i = bisect_left(times, story.called.t)
        if i and _goes_back(best[i - 1], story):
            yield best[i - 1], story, f"asked later, yet {story.fence} <= {best[i - 1].fence}"


def _goes_back(earlier: Story, later: Story) -> bool:
    if _one_hold(earlier, later):
        return later.fence < earlier.fence
    return later.fence <= earlier.fence


def _successors(stretches: list[Span]) -> Iterator[Pair]:
    """Of two holds valid one after the other, one of them exclusive, the later is greater."""
    ended = sorted(stretches, key=lambda span: span.end)
    exclusive = [span for span in ended if span.mode is Mode.EXCLUSIVE]
    for before, modes in ((ended, {Mode.EXCLUSIVE}), (exclusive, {Mode.SHARED, Mode.PERMIT})):
        ends = [span.end for span in before]
        best = list(accumulate((span.story for span in before), _greater))
        for span in stretches:
            i = bisect_left(ends, span.start)
            if not i or span.mode not in modes or best[i - 1] is span.story:
                continue
            if _goes_back(best[i - 1], span.story):
                why = f"valid later, yet {span.story.fence} <= {best[i - 1].fence}"
                yield best[i - 1], span.story, why


def resource(stories: Stories, _: Assumptions) -> Iterator[Violation]:
    """(c) What the guarded resource let in."""
    for name, steps in stories.resource.items():
        newest: Event | None = None
        last_write: Event | None = None
        reads: dict[str, Event] = {}
        for step in steps:
            behind = newest is not None and (step.fence or 0) < (newest.fence or 0)
            if behind != (step.kind is Kind.REFUSED):
                why = "accepted a step behind" if behind else "refused a step with"
                yield Violation("c", f"{name}: {why} the newest fence", _some(newest, step))
            if step.kind is Kind.ENTERED:
                newest = step if newest is None or not behind else newest
            elif step.kind is Kind.READ:
                reads[step.hold] = step
            elif step.kind is Kind.WROTE:
                base = reads.get(step.hold)
                if last_write and base and base.value != last_write.value:
                    yield Violation("c", f"{name}: an update was lost", (base, last_write, step))
                last_write = step


def _some(*events: Event | None) -> tuple[Event, ...]:
    return tuple(event for event in events if event is not None)


def loss(stories: Stories, given: Assumptions) -> Iterator[Violation]:
    """(d) A loss is by the holder's clock, told in time, never false, never taken back."""
    for story in stories:
        if story.got is not None:
            for why in _broken_beliefs(story, stories, given):
                yield Violation("d", f"{story.name}: {why}", tuple(story.events))
            if _never_told(story, stories, given):
                yield Violation("d", f"{story.name}: the loss was not told", tuple(story.events))
    for event in stories.odd:
        yield Violation("d", f"{event.name}: {event.kind} without a call", (event,))


def _broken_beliefs(story: Story, stories: Stories, given: Assumptions) -> Iterator[str]:
    until, lost, released = inf, False, False
    for event in story.events:
        over = lost or event.t >= until
        released |= event.kind is Kind.RELEASED
        if event.kind is Kind.RENEWED and over:
            yield "a hold that was over was renewed"
        elif event.kind is Kind.CHECKED and over:
            yield "believed to be held after its validity"
        elif event.kind is Kind.LOST:
            if lost:
                yield "told lost twice"
            elif released:
                kind, _, _ = event.note.partition(": ")  # what follows says why
                if kind != "broken":  # a break that meets the release is told aside, later
                    yield "told lost after it was released"
            elif event.t < until and not _excused(story, event, stories, given):
                yield "told lost although it was confirmed in time"
            lost = True
        if event.kind is Kind.ACQUIRED or event.kind is Kind.RENEWED:
            until = inf if event.until is None else event.until


RECOVERY = 6.0
"""So long before a call, what befell a node may have kept it from voting."""


def _excused(story: Story, told: Event, stories: Stories, given: Assumptions) -> bool:
    if stories.voided(given.exclusion_void_after, story.name, story.called.t, told.t):
        return True
    since = story.called.t - (RECOVERY if given.minority else 0.0)
    return stories.voids(given.ends_holds, story.name, since, told.t) > given.minority


def _never_told(story: Story, stories: Stories, given: Assumptions) -> bool:
    """Over by the clock, awake for long enough afterwards, and not a word."""
    if given.told_within is None or story.until + given.told_within > stories.last:
        return False
    due = story.until + given.told_within
    ended = story.ending.t if story.ending else inf
    awake = stories.calm(story.until, due) and not stories.asleep(
        story.called.who, story.until, due
    )
    return ended > due and awake


def ownership(stories: Stories, _: Assumptions) -> Iterator[Violation]:
    """(e) Engine side: each hold is ended and extended by its own claim only, and never revived."""
    for name, events in stories.engine.items():
        until: dict[str, float] = {}
        for event in events:
            if event.kind is Kind.WITHDRAWN:
                continue
            if event.kind is not Kind.GRANTED and event.by not in ("", event.hold):
                yield Violation("e", f"{name}: {event.kind} by another claim", (event,))
            if event.kind is Kind.EXTENDED and event.t >= until.get(event.hold, -inf):
                yield Violation("e", f"{name}: a hold was revived or created by renewal", (event,))
            until[event.hold] = _engine_until(event)


def _engine_until(event: Event) -> float:
    if event.kind is Kind.FREED:
        return -inf
    return inf if event.until is None else event.until
