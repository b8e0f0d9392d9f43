"""The points of the charts, column by column, as the script of the page draws them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from starlette.datastructures import QueryParams

from locknut.dashboard.observed_places import Places
from locknut.observer.sightings import Moment

_NAMES = ("held", "waiting", "longest", "p50", "p95", "p99")


def series(places: Places, query: QueryParams) -> dict[str, list[Any]]:
    """The points of the charts, column by column; of several places, the sums and the worst."""
    moments = [list(each.moments) for _, each in places.chosen(query.get("at", "")) if each.moments]
    if not moments:
        return {name: [] for name in ("at", *_NAMES)}
    longest = max(moments, key=len)
    rows = [_together([_latest(one, each.at) for one in moments]) for each in longest]
    columns = zip(*rows, strict=True)
    return {"at": [round(each.at, 1) for each in longest]} | dict(
        zip(_NAMES, map(list, columns), strict=True)
    )


def _latest(moments: list[Moment], at: float) -> Moment:
    """The last point that is not after this time, or the first."""
    found = bisect_right(moments, at, key=lambda each: each.at)
    return moments[max(0, found - 1)]


def _together(points: list[Moment]) -> tuple[Any, ...]:
    return (
        sum(each.held for each in points),
        sum(each.waiting for each in points),
        round(max(each.longest for each in points), 3),
        _worst(each.wait_p50 for each in points),
        _worst(each.wait_p95 for each in points),
        _worst(each.wait_p99 for each in points),
    )


def _worst(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return round(max(known), 4) if known else None
