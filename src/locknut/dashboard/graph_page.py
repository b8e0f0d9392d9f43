"""The page of who waits for whom: each lock with its holders, then its line; cycles come first."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from locknut.cli.messages import plain, span, who
from locknut.dashboard.observed_places import Places
from locknut.dashboard.tables import part
from locknut.observer import summaries
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.seams import Cycle


def graph(places: Places, query: QueryParams) -> dict[str, Any]:
    cycles: list[dict[str, Any]] = []
    trees: list[dict[str, Any]] = []
    for at, observer in places.chosen(query.get("at", "")):
        cycles += [_cycle(at, observer, each) for each in observer.cycles]
        in_cycle = {member.lock for each in observer.cycles for member in each}
        trees += [
            _tree(at, observer, info) | {"cycle": info.name in in_cycle}
            for info in summaries.blocked(observer.picture.locks)
        ]
    trees.sort(key=lambda each: (not each["cycle"], -each["waiting"]))
    number = query.get("page", "")
    page = part(trees, int(number) if number.isdigit() else 1, len(trees))
    address = urlencode({"at": query["at"]}) if query.get("at") else ""
    return {"cycles": cycles, "page": page, "address": address}


def _cycle(at: str, observer: PlaceObserver, cycle: Cycle) -> dict[str, Any]:
    members = [
        {
            "who": plain(each.who),
            "name": plain(each.lock),
            "address": urlencode({"at": at, "name": each.lock}),
        }
        for each in cycle
    ]
    return {"members": members, "place": observer.place}


def _tree(at: str, observer: PlaceObserver, info: Any) -> dict[str, Any]:
    now = observer.now()

    def told(each: Any) -> dict[str, Any]:
        since = summaries.waits_since(observer, info.name, each)
        lasted = "" if since is None else span(max(0.0, now - since))
        return {"who": who(each), "lasted": lasted, "mode": each.mode.value}

    return {
        "name": plain(info.name),
        "address": urlencode({"at": at, "name": info.name}),
        "place": observer.place,
        "holders": [told(each) for each in info.holders],
        "waiters": [told(each) for each in info.waiters[:12]],
        "waiting": len(info.waiters),
        "more": max(0, len(info.waiters) - 12),
    }
