"""Who holds and who waits, as a majority of the nodes sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.backends.redis import naming, wire
from holdfast.backends.redis.recipe import person
from holdfast.backends.redis.scripts import Script
from holdfast.backends.redlock.recipe import PARTS, SUFFIX, Words
from holdfast.core.values import Holder, LockInfo

_NONE = Script(b"", b"")
View = Sequence[Any]
"""What `look` answers: holders, waiters, clock."""


def majority_view(key: str, views: Sequence[View], needed: int) -> LockInfo | None:
    """Holders that so many nodes know, and everybody who waits anywhere."""
    holders = [seen for seen, times in _holders(views) if times >= needed]
    waiters = _waiters(views)
    return LockInfo(key, tuple(holders), waiters) if holders or waiters else None


def broken(key: str, views: Sequence[View]) -> LockInfo | None:
    """All that was broken, on however few nodes."""
    holders = [seen for seen, _ in _holders(views)]
    return LockInfo(key, tuple(holders)) if holders else None


def handle_of(views: Sequence[View], raw: int) -> int | None:
    """Who holds under this number; the largest that any node knows of a hold is its number."""
    numbers: dict[int, int] = {}
    for view in views:
        for handle, _, number, *_ in view[0]:
            numbers[handle] = max(number, numbers.get(handle, 0))
    return next((handle for handle, number in numbers.items() if number == raw), None)


def _holders(views: Sequence[View]) -> list[tuple[Holder, int]]:
    """Each with the number of nodes that know it."""
    times: Counter[int] = Counter()
    best: dict[int, Holder] = {}
    for view in views:
        for handle, mode, raw, left, shown in view[0]:
            times[handle] += 1
            holder = person(mode, shown)._replace(raw=raw or None, ttl_left=left / 1000)
            known = best.get(handle)
            if known is None or (holder.raw or 0) > (known.raw or 0):
                best[handle] = holder
    return [(best[handle], count) for handle, count in times.items()]


def _waiters(views: Sequence[View]) -> tuple[Holder, ...]:
    """In the order of the node that knows most of them."""
    found: dict[int, Holder] = {}
    for view in sorted(views, key=lambda each: -len(each[1])):
        for handle, mode, shown in view[1]:
            found.setdefault(handle, person(mode, shown)._replace(since=None))
    return tuple(found.values())


def scan(cursor: bytes) -> Words:
    packed = wire.pack(b"SCAN", cursor, b"MATCH", b"*:{*}" + SUFFIX + b"*", b"COUNT", b"1000")
    return lambda _run: (_NONE, packed)


def key_of(found: bytes) -> str | None:
    """The lock that a key of a node belongs to, if any."""
    for part in PARTS:
        if found.endswith(SUFFIX + part):
            place = naming.key_of(found.removesuffix(SUFFIX + part))
            return None if place is None or place[1] else place[0]
    return None
