"""The pages: what each shows, from the observers to the names that its template uses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from locknut.cli.messages import plain, span
from locknut.dashboard import drawings, tables
from locknut.dashboard.observed_places import Places
from locknut.dashboard.tables import address_of
from locknut.observer import summaries
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.quantiles import quantile
from locknut.observer.sightings import Concern, Happening, Weight

Context = dict[str, Any]


class ConcernRow(NamedTuple):
    """One line of "needs attention"."""

    level: str
    kind: str
    title: str
    detail: str
    name: str
    address: str
    place: str
    ago: str


class EventRow(NamedTuple):
    """One line of the page of events."""

    when: str
    kind: str
    bad: bool
    name: str
    address: str
    who: str
    fence: int | None
    detail: str
    place: str


def seconds_or_dash(value: float | None) -> str:
    """For people."""
    return "-" if value is None else span(value)


def concern_row(at: str, observer: PlaceObserver, concern: Concern) -> ConcernRow:
    age = summaries.age_of(observer, concern)
    return ConcernRow(
        Weight(concern.weight).name.lower(),
        concern.kind,
        concern.title,
        concern.detail,
        plain(concern.name),
        address_of(at, concern.name) if concern.name else "",
        observer.place,
        "" if age is None else span(age),
    )


def asked_of(query: QueryParams) -> tables.Asked:
    """Which locks an address asks for."""
    return tables.Asked(
        query.get("at", ""),
        query.get("filter", "")[:200],
        query.get("order", "waiting") if query.get("order") in tables.ORDERS else "waiting",
        query.get("mode", ""),
        tables.number_of(query.get("page")),
    )


def locks(places: Places, query: QueryParams) -> Context:
    asked = asked_of(query)
    page = tables.lock_page(places, asked)
    kept = {key: str(value) for key, value in asked._asdict().items() if value and key != "page"}
    return {
        "asked": asked,
        "page": page,
        "orders": tables.ORDERS,
        "address": urlencode(kept),
        "problems": [each.place for _, each in places.chosen(asked.at) if each.picture.problem],
    }


def lock(observer: PlaceObserver, at: str, name: str) -> Context:
    """One lock, which may be free by now."""
    info = next((each for each in observer.picture.locks if each.name == name), None)
    holds, waits = summaries.spans_of(observer, name)
    lasted, waited = summaries.durations(observer, name)
    events = observer.events(name)[-50:]
    holders = [] if info is None else info.holders
    waiters = [] if info is None else info.waiters
    return {
        "at": at,
        "name": name,
        "shown": plain(name),
        "place": observer.place,
        "address": address_of(at, name),
        "info": info,
        "holders": [tables.holder_row(observer, info, each) for each in holders if info],
        "waiters": [tables.holder_row(observer, info, each) for each in waiters if info],
        "tells_waiters": observer.tells_waiters,
        "backend": observer.locks.backend,
        "timeline": drawings.timeline(holds, waits, observer.shown_at()),
        "hold_bars": drawings.bars(lasted),
        "wait_bars": drawings.bars(waited),
        "hold_p95": seconds_or_dash(quantile(lasted, 0.95)),
        "wait_p95": seconds_or_dash(quantile(waited, 0.95)),
        "events": [event_row(at, observer, each) for each in reversed(events)],
        "details": [] if info is None else info.details,
        "stale": observer.picture.problem,
        "concerns": [
            concern_row(at, observer, each) for each in observer.concerns() if each.name == name
        ],
    }


_BAD = {"lost", "expired", "broken", "unreachable", "unseen"}


def event_row(at: str, observer: PlaceObserver, event: Happening) -> EventRow:
    return EventRow(
        _when(event.at, observer.now()),
        plain(event.kind),
        event.kind in _BAD,
        plain(event.name),
        address_of(at, event.name) if event.name else "",
        plain(event.who),
        event.fence,
        plain(event.detail),
        observer.place,
    )


def _when(at: float, now: float) -> str:
    """By the local clock; with the day, if that is another one than today."""
    then, today = time.localtime(at), time.localtime(now)
    same = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same else "%m-%d %H:%M:%S", then)


def events(places: Places, query: QueryParams) -> Context:
    kind, wanted = query.get("kind", ""), query.get("filter", "")[:200].strip()
    found: list[tuple[float, str, PlaceObserver, Happening]] = []
    kinds: set[str] = set()
    for at, observer in places.chosen(query.get("at", "")):
        happened = observer.events()
        kinds.update(each.kind for each in happened if each.kind.isprintable())
        found += [
            (each.at, at, observer, each)
            for each in happened
            if kind in {"", each.kind} and (wanted in each.name or wanted in each.who)
        ]
    found.sort(key=lambda each: each[0], reverse=True)
    page = tables.part(found, tables.number_of(query.get("page")), len(found))
    kept = {"at": query.get("at", ""), "kind": kind, "filter": wanted}
    return {
        "page": page,
        "events": [event_row(at, observer, each) for _, at, observer, each in page.rows],
        "kinds": sorted(kinds),
        "kind": kind,
        "filter": wanted,
        "address": urlencode({key: value for key, value in kept.items() if value}),
    }


def owners(places: Places, query: QueryParams) -> Context:
    found: list[Mapping[str, Any]] = []
    wanted = query.get("filter", "")[:200].strip()
    for at, observer in places.chosen(query.get("at", "")):
        now = observer.shown_at()
        for each in summaries.owners(observer):
            if wanted not in each.title:
                continue
            found.append(
                {
                    "title": plain(each.title),
                    "place": observer.place,
                    "holds": [_span_row(at, one, now) for one in each.holds[:20]],
                    "waits": [_span_row(at, one, now) for one in each.waits[:20]],
                    "held": len(each.holds),
                    "waiting": len(each.waits),
                }
            )
    page = tables.part(found, tables.number_of(query.get("page")), len(found))
    kept = {"at": query.get("at", ""), "filter": wanted}
    address = urlencode({key: value for key, value in kept.items() if value})
    return {"page": page, "filter": wanted, "address": address}


def _span_row(at: str, each: Any, now: float) -> Mapping[str, Any]:
    return {
        "name": plain(each.name),
        "address": address_of(at, each.name),
        "lasted": span(each.lasted(now)),
        "fence": each.holder.fence,
    }


def backends(places: Places, _query: QueryParams) -> Context:
    for each in places.all.values():
        each.doctor.wanted = True
    return {
        "engines": [
            {
                "at": at,
                "backend": each.locks.backend,
                "place": each.place,
                "namespace": each.locks.namespace,
                "capabilities": sorted(one.value for one in each.locks.capabilities),
                "picture": each.picture,
                "locks": len(each.picture.locks),
                "took": span(each.picture.took),
                "pause": span(each.picture.pause),
                "checkup": [concern_row(at, each, one) for one in each.doctor.findings],
                "silent_for": _silent(each),
            }
            for at, each in places.all.items()
        ]
    }


def _silent(observer: PlaceObserver) -> str:
    since = observer.picture.unreachable_since
    return "" if since is None else span(max(0.0, observer.now() - since))
