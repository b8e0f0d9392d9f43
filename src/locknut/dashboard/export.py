"""What the pages show, as JSON for scripts: seconds and numbers instead of words.

`overview.json` has the first page, and `locks.json` every lock that matches, each as
`locknut ls --json` prints it.
"""

from __future__ import annotations

from typing import Any

from starlette.datastructures import QueryParams

from locknut.cli.ls import facts_of
from locknut.dashboard import pages, tables
from locknut.dashboard.observed_places import Places
from locknut.dashboard.overview_page import overview
from locknut.observer.acquisitions import Rate
from locknut.observer.quantiles import quantile
from locknut.observer.sightings import Weight
from locknut.observer.summaries import durations


def first_page(places: Places, query: QueryParams) -> dict[str, Any]:
    at = query.get("at", "")
    found = overview(places, at)
    figures = found.figures._asdict()
    rate = figures.pop("acquired_per_second")
    return {
        **figures,
        **_acquired(rate),
        "engines": _engines(places, at),
        "attention": [
            {
                "level": Weight(one.weight).name.lower(),
                "kind": one.kind,
                "lock": one.name or None,
                "place": observer.place,
                "title": one.title,
                "detail": one.detail,
                "since": one.since,
            }
            for _, observer, one in found.concerns
        ],
        "hottest": [
            {
                "lock": one.name,
                "place": observer.place,
                "waiting": one.waiting,
                "waited": one.waited,
                **_acquired(one.acquired),
                "wait_p95": one.wait_p95,
                "hold_p95": one.hold_p95,
                "line": list(one.line),
            }
            for _, observer, one in found.hottest
        ],
    }


def _acquired(rate: Rate | None) -> dict[str, Any]:
    return {
        "acquired_per_second": None if rate is None else rate.value,
        "acquired_at_least": rate is not None and rate.at_least,
    }


def _engines(places: Places, at: str) -> list[dict[str, Any]]:
    return [
        {
            "at": slug,
            "backend": each.locks.backend,
            "place": each.place,
            "namespace": each.locks.namespace,
            "listed": each.picture.at,
            "problem": each.picture.problem or None,
        }
        for slug, each in places.chosen(at)
    ]


def all_locks(places: Places, query: QueryParams) -> dict[str, Any]:
    """Those that the page of locks would show on all of its parts, in the same order."""
    asked = pages.asked_of(query)
    found = tables.matching(places, asked)
    return {
        "engines": _engines(places, asked.at),
        "locks": [
            facts_of(info, observer.place)
            | {"wait_p95": quantile(durations(observer, info.name)[1], 0.95)}
            for _, observer, info in found
        ],
    }
