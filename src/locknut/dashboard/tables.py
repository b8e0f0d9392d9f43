"""The rows of the pages' tables: which locks match, in which order, and which part is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from locknut import Holder, LockInfo, Mode
from locknut.cli.messages import command, plain, span, who
from locknut.dashboard.observed_places import Places
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.quantiles import quantile
from locknut.observer.sightings import NEVER, Identity
from locknut.observer.summaries import durations, waits_since

PAGE_SIZE = 50
ORDERS = ("waiting", "held", "name")
Item = TypeVar("Item")
Listed = tuple[str, PlaceObserver, LockInfo]
"""A lock, with its place and the short name of that."""


class HolderRow(NamedTuple):
    """A holder or a waiter, in words."""

    title: str
    command: str
    mode: str
    lasted: str
    ttl: str
    ttl_left: float | None
    ttl_most: float
    fence: int | None
    thread: str
    host: str
    pid: int | None


class LockRow(NamedTuple):
    """One lock."""

    at: str
    place: str
    name: str
    shown: str
    """The name without anything that a page would not show."""
    address: str
    """What leads to its own page."""
    mode: str
    first: HolderRow | None
    holders: int
    waiting: int
    tells_waiters: bool
    """Whether 0 means that nobody waits."""
    age: float
    wait_p95: str


class Asked(NamedTuple):
    """What the address of the page of locks says."""

    at: str = ""
    filter: str = ""
    order: str = "waiting"
    mode: str = ""
    page: int = 1


class Page(NamedTuple, Generic[Item]):
    """A part of a long list."""

    rows: Sequence[Item]
    number: int
    pages: int
    found: int
    of: int


def address_of(at: str, name: str) -> str:
    """What leads to the page of a lock."""
    return urlencode({"at": at, "name": name}, errors="replace")


def number_of(text: str | None) -> int:
    """Of a page, as an address says it; whatever is none is the first one."""
    return int(text) if text and text.isdecimal() and len(text) < 7 else 1


def part(found: Sequence[Item], number: int, of: int) -> Page[Item]:
    pages = max(1, -(-len(found) // PAGE_SIZE))
    number = min(max(1, number), pages)
    return Page(found[(number - 1) * PAGE_SIZE : number * PAGE_SIZE], number, pages, len(found), of)


def matching(places: Places, asked: Asked) -> list[Listed]:
    """The locks that were asked for, in the order that was."""
    order = _order(asked.order)
    found = [
        (at, observer, info)
        for at, observer in places.chosen(asked.at)
        for info in observer.picture.locks
        if _matches(info, asked)
    ]
    return sorted(found, key=lambda each: order(each[2]))


def lock_page(places: Places, asked: Asked) -> Page[LockRow]:
    """The part that was asked for: only its rows are worked out."""
    count = sum(len(each.picture.locks) for _, each in places.chosen(asked.at))
    shown = part(matching(places, asked), asked.page, count)
    rows = [lock_row(*each) for each in shown.rows]
    return Page(rows, shown.number, shown.pages, shown.found, shown.of)


def _matches(info: LockInfo, asked: Asked) -> bool:
    if asked.mode and mode_of(info) != asked.mode:
        return False
    wanted = asked.filter.strip()
    if not wanted:
        return True
    if any(letter in wanted for letter in "*?["):
        return fnmatchcase(info.name, wanted)
    people = (who(each) for each in (*info.holders, *info.waiters))
    return wanted in info.name or any(wanted in each for each in people)


def _order(order: str) -> Callable[[LockInfo], Any]:
    if order == "name":
        return lambda info: info.name
    if order == "held":
        return lambda info: (_since(info), info.name)
    return lambda info: (-len(info.waiters), info.name)


def _since(info: LockInfo) -> float:
    return min((each.since for each in info.holders if each.since is not None), default=NEVER)


def mode_of(info: LockInfo) -> str:
    """exclusive, shared or permit; of a lock that is only waited for, what is waited for."""
    first = next(iter((*info.holders, *info.waiters)), None)
    return Mode.EXCLUSIVE.value if first is None else first.mode.value


def lock_row(at: str, observer: PlaceObserver, info: LockInfo) -> LockRow:
    now = observer.shown_at()
    _, waits = durations(observer, info.name)
    p95 = quantile(waits, 0.95)
    first = holder_row(observer, info, info.holders[0]) if info.holders else None
    since = min(now, _since(info))
    return LockRow(
        at,
        observer.place,
        info.name,
        plain(info.name),
        address_of(at, info.name),
        _mode(info),
        first,
        len(info.holders),
        len(info.waiters),
        observer.tells_waiters,
        max(0.0, now - since),
        "" if p95 is None else span(p95),
    )


def _mode(info: LockInfo) -> str:
    mode = mode_of(info)
    if mode != Mode.PERMIT.value:
        return mode
    limit = "" if info.permits is None else f"/{info.permits}"
    return f"slots {len(info.holders)}{limit}"


def holder_row(observer: PlaceObserver, info: LockInfo, holder: Holder) -> HolderRow:
    shown = observer.shown_at()
    since = waits_since(observer, info.name, holder)
    left = holder.ttl_left
    if left is not None:
        left = max(0.0, left - (observer.now() - shown))  # what was listed some seconds ago
    return HolderRow(
        who(holder),
        command(holder),
        _mode(info),
        "" if since is None else span(max(0.0, shown - since)),
        "" if left is None else span(round(left, 1)),
        left,
        _longest_ttl(observer, info.name, holder),
        holder.fence,
        plain(holder.who),
        plain(holder.host),
        holder.pid,
    )


def _longest_ttl(observer: PlaceObserver, name: str, holder: Holder) -> float:
    """What a full bar stands for: the most that was left at any listing."""
    with observer.guard:
        known = observer.tracker.holds.get((name, Identity.of(holder)))
        return (known.longest_ttl if known else holder.ttl_left) or 1.0
