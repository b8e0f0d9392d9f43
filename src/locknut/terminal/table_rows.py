"""What the table of `locknut top` shows in each of its views: rows of text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from locknut import Holder, LockInfo, Mode
from locknut.cli.messages import plain, span, who
from locknut.observer import summaries
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.quantiles import quantile
from locknut.observer.sightings import NEVER, Weight

MOST = 500
"""Rows: nobody scrolls further, and each costs something at every refresh."""
ORDERS = ("waiting", "held", "name")


class Row(NamedTuple):
    """One line; `name` and `fence` say which hold it is about."""

    cells: tuple[str, ...]
    name: str = ""
    fence: int | None = None
    style: str = ""


class View(NamedTuple):
    """One of the views, chosen by its number."""

    title: str
    columns: tuple[str, ...]
    rows: Callable[[PlaceObserver, str, str], Iterator[Row]]


def matches(name: str, wanted: str) -> bool:
    if any(letter in wanted for letter in "*?["):
        return fnmatchcase(name, wanted)
    return wanted in name


def _lasted(since: float | None, now: float) -> str:
    return "-" if since is None else span(max(0.0, now - since))


def _locks(observer: PlaceObserver, wanted: str, order: str) -> Iterator[Row]:
    """Each lock with its line below it."""
    now = observer.shown_at()
    found = [each for each in observer.picture.locks if matches(each.name, wanted)]
    for info in sorted(found, key=lambda each: _order(each, order)):
        with observer.guard:
            past = summaries.durations(observer, info.name)[1]
        p95 = quantile(past, 0.95)
        yield from _holders(info, now, "-" if p95 is None else span(p95))
        last = len(info.waiters) - 1
        for turn, each in enumerate(info.waiters):
            branch = "└" if turn == last else "├"
            cells = (f" {branch} {who(each)}", each.mode.value, f"waiting, #{turn + 1}")
            since = summaries.waits_since(observer, info.name, each)
            yield Row((*cells, _lasted(since, now), "", "", "", ""), info.name, style="yellow")


def _holders(info: LockInfo, now: float, p95: str) -> Iterator[Row]:
    waiting = str(len(info.waiters) or "-")
    if not info.holders:
        yield Row((plain(info.name), "-", "nobody", "-", "-", "-", waiting, p95), info.name)
    for number, each in enumerate(info.holders):
        name = plain(info.name) if number == 0 else ""
        left = "-" if each.ttl_left is None else span(each.ttl_left)
        fence = "-" if each.fence is None else str(each.fence)
        cells = (name, _mode(info, each), who(each), _lasted(each.since, now), left, fence)
        rest = (waiting, p95) if number == 0 else ("", "")
        yield Row((*cells, *rest), info.name, each.fence)


def _mode(info: LockInfo, holder: Holder) -> str:
    if holder.mode is not Mode.PERMIT:
        return {"exclusive": "X", "shared": "S"}[holder.mode.value]
    return f"{len(info.holders)}/{'?' if info.permits is None else info.permits}"


def _order(info: LockInfo, order: str) -> tuple[float, str]:
    if order == "name":
        return 0.0, info.name
    if order == "held":
        oldest = min((each.since for each in info.holders if each.since), default=NEVER)
        return oldest, info.name
    return float(-len(info.waiters)), info.name


def _waiting(observer: PlaceObserver, wanted: str, _order: str) -> Iterator[Row]:
    with observer.guard:
        now = observer.shown_at()
        waits = sorted(observer.tracker.waits.values(), key=lambda each: each.since)
    holders = {info.name: info.holders for info in observer.picture.locks}
    for each in waits:
        if matches(each.name, wanted):
            held = holders.get(each.name, ())
            blocker = who(held[0]) if held else "nobody"
            cells = (span(each.lasted(now)), who(each.holder), plain(each.name), blocker)
            yield Row((*cells, each.holder.mode.value), each.name)


def _owners(observer: PlaceObserver, wanted: str, _order: str) -> Iterator[Row]:
    for each in summaries.owners(observer):
        if wanted in each.title or any(matches(one.name, wanted) for one in each.holds):
            holds = ", ".join(plain(one.name) for one in each.holds[:5])
            waits = ", ".join(plain(one.name) for one in each.waits[:5])
            counts = (str(len(each.holds)), str(len(each.waits)))
            yield Row((plain(each.title), *counts, holds, waits))


def _events(observer: PlaceObserver, wanted: str, _order: str) -> Iterator[Row]:
    happened = observer.events()
    for each in reversed(happened):
        if matches(each.name, wanted):
            when = time.strftime("%H:%M:%S", time.localtime(each.at))
            fence = "-" if each.fence is None else str(each.fence)
            bad = each.kind in {"lost", "expired", "broken", "unreachable"}
            cells = (when, each.kind, plain(each.name), each.who, fence, plain(each.detail))
            yield Row(cells, each.name, style="red" if bad else "")


def _attention(observer: PlaceObserver, wanted: str, _order: str) -> Iterator[Row]:
    for each in observer.concerns():
        if matches(each.name, wanted):
            age = summaries.age_of(observer, each)
            style = "red" if each.weight is Weight.TROUBLE else "yellow"
            cells = (
                each.kind,
                plain(each.name),
                each.title,
                each.detail,
                "-" if age is None else span(age),
            )
            yield Row(cells, each.name, style=style)


VIEWS = {
    "locks": View(
        "Locks", ("LOCK", "MODE", "HOLDER", "SINCE", "TTL", "FENCE", "WAIT", "P95"), _locks
    ),
    "waiting": View("Waiting", ("FOR", "WHO", "LOCK", "HELD BY", "MODE"), _waiting),
    "owners": View("Owners", ("PROCESS", "HELD", "WAITING", "HOLDS", "WAITS FOR"), _owners),
    "events": View("Events", ("TIME", "EVENT", "LOCK", "WHO", "FENCE", "DETAIL"), _events),
    "attention": View("Attention", ("KIND", "LOCK", "WHAT", "DETAIL", "AGO"), _attention),
}
"""In the order of their numbers."""
