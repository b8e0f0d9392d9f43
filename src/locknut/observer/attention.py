"""What needs attention: how a picture and its history become concerns, the worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from locknut import LockInfo
from locknut.cli.messages import plain, span, who
from locknut.observer.changes import OpenHold
from locknut.observer.sightings import Concern, Ending, Picture, Span, Weight
from locknut.observer.span_history import SpanHistory

LONG_WAIT = 30.0
"""Seconds after which a wait is worth a line."""
FAR_LONGER = 5.0
"""So many times the 95th percentile is far longer than usual."""
SHORTEST_LONG_HOLD = 10.0
"""A hold that has not lasted for these seconds bothers nobody, whatever is usual."""
ENOUGH = 5
"""Holds that must have been seen before one can speak of what is usual."""
REMEMBERED = 24 * 3600.0
"""Seconds for which a loss stays on the first page."""
MOST = 50
_ALWAYS = frozenset({"redlock-votes"})
"""Codes of the doctor that are worth a line even as a warning: the next failure would be one too
many."""
_OURS = frozenset({"reachable", "usable", "round-trip"})
"""Codes that judge our own way to the engine: who looks need not be able to take a lock."""


class Evidence(NamedTuple):
    """All that concerns are made from."""

    picture: Picture
    holds: Iterable[OpenHold]
    waits: Iterable[Span]
    history: SpanHistory
    endings: Iterable[Span]
    """The holds that ended badly, in the order of their ends."""


def concerns(seen: Evidence, now: float, more: Iterable[Concern] = ()) -> list[Concern]:
    """At most `MOST`, the most urgent first; `more` are those that others found."""
    # Nobody knows how long a hold goes on after the last listing that showed it.
    shown = now if seen.picture.at is None else seen.picture.at
    found = [
        *more,
        *_unreachable(seen.picture),
        *_long_holds(seen, shown),
        *_long_waits(seen.waits, shown),
        *_expiring(seen.holds),
        *_endings(seen.endings, now),
        *_servers(seen.picture.locks),
    ]
    found.sort(key=urgency)
    return found[:MOST]


def urgency(concern: Concern) -> tuple[int, bool, float]:
    """What to sort by. Of one weight, what goes on comes before what is over: the losses of a day
    must not hide a deadlock. What has gone on for longest is first, and what was over last.
    """
    over, since = concern.kind in _OVER, concern.since or 0.0
    return -concern.weight, over, -since if over else since


def of_the_engine(checkup: Iterable[Concern]) -> Iterator[Concern]:
    """What the doctor found that makes locks unsafe: an engine that evicts them, servers that do
    not vote. What else could be better stands on the page of the engines.
    """
    for each in checkup:
        if each.kind in _ALWAYS or (each.weight is Weight.TROUBLE and each.kind not in _OURS):
            yield each


def _unreachable(picture: Picture) -> Iterator[Concern]:
    if picture.problem:
        title = "the engine does not answer"
        since = picture.unreachable_since
        yield Concern(Weight.TROUBLE, "unreachable", title, picture.problem, since=since)


def _long_holds(seen: Evidence, shown: float) -> Iterator[Concern]:
    for each in seen.holds:
        lasted = each.span.lasted(shown)
        if lasted < SHORTEST_LONG_HOLD:
            continue
        usual, count = seen.history.usual_hold(each.family)
        if count >= ENOUGH and lasted > FAR_LONGER * usual:
            title = f"has been held for {span(lasted)}, far longer than usual"
            detail = f"by {who(each.span.holder)}; 95 of 100 last no longer than {span(usual)}"
            yield Concern(
                Weight.WARNING, "long hold", title, detail, each.span.name, each.span.since
            )


def _long_waits(waits: Iterable[Span], shown: float) -> Iterator[Concern]:
    """One per lock: the one that has waited for longest speaks for its line."""
    longest: dict[str, Span] = {}
    lines: dict[str, int] = {}
    for each in waits:
        lines[each.name] = lines.get(each.name, 0) + 1
        known = longest.get(each.name)
        if each.lasted(shown) >= LONG_WAIT and (known is None or each.since < known.since):
            longest[each.name] = each
    for each in longest.values():
        title = f"has kept {who(each.holder)} waiting for {span(each.lasted(shown))}"
        detail = f"{lines[each.name]} in the line"
        yield Concern(Weight.WARNING, "long wait", title, detail, each.name, each.since)


def _expiring(holds: Iterable[OpenHold]) -> Iterator[Concern]:
    for each in holds:
        if each.unrenewed and each.ttl_left is not None:
            title = f"is not renewed and runs out in {span(each.ttl_left)}"
            detail = f"held by {who(each.span.holder)}, which may be dead, stopped or cut off"
            yield Concern(
                Weight.WARNING, "expiring", title, detail, each.span.name, each.span.since
            )


_WORDS = {
    Ending.EXPIRED: ("was not renewed and ran out", Weight.TROUBLE),
    Ending.LOST: ("was lost", Weight.TROUBLE),
    Ending.BROKEN: ("was broken by force", Weight.WARNING),
}


_OVER = frozenset(each.value for each in _WORDS)


def _endings(endings: Iterable[Span], now: float) -> Iterator[Concern]:
    for each in endings:
        if each.until is None or each.until < now - REMEMBERED:
            continue
        title, weight = _WORDS[each.ending]
        why = f"; {plain(each.note)}" if each.note else ""
        detail = f"held by {who(each.holder)}, fence {each.holder.fence}{why}"
        yield Concern(weight, each.ending.value, title, detail, each.name, each.until)


def _servers(locks: Iterable[LockInfo]) -> Iterator[Concern]:
    """Where an engine asks several servers, and one of them does not take part."""
    problems = {
        detail.place: detail.problem for info in locks for detail in info.details if detail.problem
    }
    for place, problem in problems.items():
        yield Concern(Weight.WARNING, "server", f"{plain(place)} does not take part", problem)
