"""The page of who waits for whom: each lock with its holders, then its line.

Deadlocks come first, then the locks whose holders wait for nothing: those are at the root of what
is waited for. The others follow, each with what its holder waits for itself.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from locknut.cli.messages import plain, span, who
from locknut.dashboard.observed_places import Places
from locknut.dashboard.tables import address_of, number_of, part
from locknut.observer import summaries
from locknut.observer.circles_across import AcrossCycle
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.seams import Cycle

Waits = dict[str, tuple[str, str]]
"""By the identity of a thread or task: the place and the name of the lock that it waits for."""


def graph(places: Places, query: QueryParams) -> dict[str, Any]:
    cycles: list[dict[str, Any]] = []
    trees: list[dict[str, Any]] = []
    waits = _waits(places)
    chosen = list(places.chosen(query.get("at", "")))
    across = [each for each in places.across.cycles if _leads_through(each, query.get("at", ""))]
    cycles += [_across(places, each) for each in across]
    in_across = {(member.at, member.lock) for each in across for member in each}
    for at, observer in chosen:
        cycles += [_cycle(at, observer, each) for each in observer.cycles]
        in_cycle = {member.lock for each in observer.cycles for member in each}
        trees += [
            _tree(at, observer, info, waits)
            | {"cycle": info.name in in_cycle or (at, info.name) in in_across}
            for info in summaries.blocked(observer.picture.locks)
        ]
    trees.sort(key=lambda each: (not each["cycle"], not each["root"], -each["waiting"]))
    page = part(trees, number_of(query.get("page")), len(trees))
    address = urlencode({"at": query["at"]}) if query.get("at") else ""
    silent = [each.place for _, each in chosen if not each.tells_waiters]
    return {"cycles": cycles, "page": page, "address": address, "silent": silent}


def _waits(places: Places) -> Waits:
    """In all places: who holds a lock in one may wait in another."""
    return {
        each.party: (at, info.name)
        for at, observer in places.all.items()
        for info in observer.picture.locks
        for each in info.waiters
        if each.party
    }


def _leads_through(cycle: AcrossCycle, at: str) -> bool:
    return at in {"", *(member.at for member in cycle)}


def _across(places: Places, cycle: AcrossCycle) -> dict[str, Any]:
    members = [_ring_member(each.at, each.who, each.lock) for each in cycle]
    through = dict.fromkeys(places.all[each.at].place for each in cycle)
    return {"members": members, "place": " and ".join(through)}


def _ring_member(at: str, who_waits: str, lock: str) -> dict[str, Any]:
    return {"who": plain(who_waits), "name": plain(lock), "address": address_of(at, lock)}


def _cycle(at: str, observer: PlaceObserver, cycle: Cycle) -> dict[str, Any]:
    members = [_ring_member(at, each.who, each.lock) for each in cycle]
    return {"members": members, "place": observer.place}


def _tree(at: str, observer: PlaceObserver, info: Any, waits: Waits) -> dict[str, Any]:
    now = observer.shown_at()

    def told(each: Any) -> dict[str, Any]:
        since = summaries.waits_since(observer, info.name, each)
        lasted = "" if since is None else span(max(0.0, now - since))
        return {"who": who(each), "lasted": lasted, "mode": each.mode.value}

    def holds(each: Any) -> dict[str, Any]:
        there, name = waits.get(each.party, ("", ""))
        return told(each) | {"waits_for": plain(name), "waits_at": address_of(there, name)}

    holders = [holds(each) for each in info.holders]
    return {
        "name": plain(info.name),
        "address": address_of(at, info.name),
        "place": observer.place,
        "holders": holders,
        "root": not any(each["waits_for"] for each in holders),
        "waiters": [told(each) for each in info.waiters[:12]],
        "waiting": len(info.waiters),
        "more": max(0, len(info.waiters) - 12),
    }
