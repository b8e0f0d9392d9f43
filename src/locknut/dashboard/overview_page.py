"""The first page: how much is held and waited for, what needs attention, which locks are hot.

The page and its export show the same figures; here they are numbers, and `shown` writes them out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.datastructures import QueryParams

from locknut.cli.messages import plain, span
from locknut.dashboard import drawings
from locknut.dashboard.observed_places import Places
from locknut.dashboard.pages import concern_row, seconds_or_dash
from locknut.dashboard.tables import address_of
from locknut.observer import summaries
from locknut.observer.acquisitions import Rate, together
from locknut.observer.attention import urgency
from locknut.observer.earlier_events import MOST_ENDINGS
from locknut.observer.place_observer import WINDOW, PlaceObserver
from locknut.observer.quantiles import quantile
from locknut.observer.sightings import Concern
from locknut.observer.summaries import HotLock

_DAY = 24 * 3600.0
_HOTTEST = 8


class Figures(NamedTuple):
    """The numbers at the top of the page."""

    held: int
    waiting: int
    longest_wait: float
    """Seconds that somebody had waited at the last listing; 0 if nobody did."""
    wait_p95: float | None
    wait_p99: float | None
    acquired_per_second: Rate | None
    ended_badly: int
    ended_badly_at_least: bool
    """Whether more ended so than are remembered."""
    answering: int
    places: int


class Overview(NamedTuple):
    """What the page says, place by place where that matters: by the short name of the place."""

    figures: Figures
    concerns: list[tuple[str, PlaceObserver, Concern]]
    hottest: list[tuple[str, PlaceObserver, HotLock]]


def overview(places: Places, at: str) -> Overview:
    """Of one place, or of all."""
    chosen = list(places.chosen(at))
    for _, each in chosen:
        each.doctor.wanted = True
    across = [(there, places.all[there], one) for there, one in places.across.concerns(at)]
    concerns = [*across, *((slug, each, one) for slug, each in chosen for one in each.concerns())]
    concerns.sort(key=lambda row: urgency(row[2]))
    hottest = [(slug, each, one) for slug, each in chosen for one in summaries.hottest(each)]
    hottest.sort(key=lambda row: -row[2].waited)
    return Overview(_figures([each for _, each in chosen]), concerns, hottest[:_HOTTEST])


def _figures(chosen: list[PlaceObserver]) -> Figures:
    waited = [seconds for each in chosen for seconds in _waited(each)]
    return Figures(
        sum(each.picture.held for each in chosen),
        sum(each.picture.waiting for each in chosen),
        max((summaries.longest_wait(each) or 0.0 for each in chosen), default=0.0),
        quantile(waited, 0.95),
        quantile(waited, 0.99),
        together(each.acquisitions.per_second() for each in chosen),
        sum(map(_ended_badly, chosen)),
        any(map(_more_ended_badly, chosen)),
        sum(each.picture.at is not None and not each.picture.problem for each in chosen),
        len(chosen),
    )


def _waited(observer: PlaceObserver) -> list[float]:
    """Seconds that each wait took which a listing showed, and which ended in a grant lately."""
    with observer.guard:
        return observer.history.waited(observer.now() - WINDOW)


def _ended_badly(observer: PlaceObserver) -> int:
    then = observer.now() - _DAY
    return sum((each.until or 0.0) >= then for each in observer.endings())


def _more_ended_badly(observer: PlaceObserver) -> bool:
    """Whether one that is as young was forgotten for those that are counted."""
    then = observer.now() - _DAY
    with observer.guard:
        before, since = observer.earlier.bad_endings, observer.bad_endings
        full = [*before[:1]] if len(before) == MOST_ENDINGS else []
        full += [since[0]] if len(since) == since.maxlen else []
    return any((each.until or 0.0) >= then for each in full)


def shown(places: Places, query: QueryParams) -> dict[str, Any]:
    """The names that the template uses."""
    found = overview(places, query.get("at", ""))
    figures = found.figures
    return {
        "concerns": [concern_row(*row) for row in found.concerns],
        "figures": figures,
        "longest": span(figures.longest_wait) if figures.longest_wait else "0s",
        "wait_p95": seconds_or_dash(figures.wait_p95),
        "wait_p99": seconds_or_dash(figures.wait_p99),
        "acquired": "-" if figures.acquired_per_second is None else figures.acquired_per_second,
        "unasked": [
            each.place
            for _, each in places.chosen(query.get("at", ""))
            if each.picture.at is None and not each.picture.problem
        ],
        "hot": [_hot(*row) for row in found.hottest],
        "no_history": [
            each.place
            for _, each in places.chosen(query.get("at", ""))
            if each.picture.at is not None and not each.tells_breaks
        ],
    }


def _hot(at: str, observer: PlaceObserver, lock: HotLock) -> dict[str, Any]:
    line = lock.line
    return {
        "shown": plain(lock.name),
        "address": address_of(at, lock.name),
        "waiting": lock.waiting,
        "waited": span(lock.waited),
        "acquired": "-" if lock.acquired is None else lock.acquired,
        "wait_p95": seconds_or_dash(lock.wait_p95),
        "hold_p95": seconds_or_dash(lock.hold_p95),
        "curve": drawings.curve(line),
        "told": f"a line of {max(line, default=0)} at most, at the last {len(line)} listings",
        "place": observer.place,
    }
