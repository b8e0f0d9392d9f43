"""Who holds and who waits, as a majority of the nodes sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from holdfast.backends.redis import naming, wire
from holdfast.backends.redis.recipe import person
from holdfast.backends.redlock.recipe import PARTS, SUFFIX, Words
from holdfast.backends.redis.scripts import Script
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


def _holders(views: Sequence[View]) -> list[tuple[Holder, int]]:
    times: Counter[bytes] = Counter()
    best: dict[bytes, Holder] = {}
    for view in views:
        for mode, raw, left, shown in view[0]:
            times[shown] += 1
            holder = person(mode, shown)._replace(raw=raw or None, ttl_left=left / 1000)
            known = best.get(shown)
            if known is None or (holder.raw or 0) > (known.raw or 0):
                best[shown] = holder
    return [(best[shown], count) for shown, count in times.items()]


def _waiters(views: Sequence[View]) -> tuple[Holder, ...]:
    """In the order of the node that knows most of them."""
    shown: dict[bytes, Holder] = {}
    for view in sorted(views, key=lambda each: -len(each[1])):
        for mode, who in view[1]:
            shown.setdefault(who, person(mode, who)._replace(since=None))
    return tuple(shown.values())


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
