"""Who holds and who waits, as a majority of the nodes sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from locknut.backends.redis import lock_keys
from locknut.backends.redis.recipe import person
from locknut.backends.redlock import ballots
from locknut.backends.redlock.recipe import PARTS, SUFFIX, Words
from locknut.core.values import Holder, LockInfo, Vote
from locknut.drivers.redis import wire
from locknut.drivers.redis.lua_scripts import Script

_NONE = Script(b"", b"")
View = Sequence[Any]
"""What `look` answers: holders, waiters, clock."""


def majority_view(
    key: str, places: Sequence[str], views: Mapping[int, View], problems: Mapping[int, str]
) -> LockInfo:
    """Holders that a majority knows, everybody who waits anywhere, and what each node says."""
    needed = ballots.majority(len(places))
    known = _holders(list(views.values()))
    holders = {handle: seen for handle, (seen, times) in known.items() if times >= needed}
    votes = []
    for at, place in enumerate(places):
        if at in views:
            found = _holders([views[at]])
            agrees = found.keys() == holders.keys()
            votes.append(Vote(place, tuple(seen for seen, _ in found.values()), agrees))
        else:
            votes.append(Vote(place, agrees=False, problem=problems.get(at, "no answer")))
    waiters = _waiters(list(views.values()))
    return LockInfo(key, tuple(holders.values()), waiters, votes=tuple(votes))


def broken(key: str, views: Sequence[View]) -> LockInfo | None:
    """All that was broken, on however few nodes."""
    holders = [seen for seen, _ in _holders(views).values()]
    return LockInfo(key, tuple(holders)) if holders else None


def handle_of(views: Sequence[View], raw: int) -> int | None:
    """Who holds under this number; the largest that any node knows of a hold is its number."""
    numbers: dict[int, int] = {}
    for view in views:
        for handle, _, number, *_ in view[0]:
            numbers[handle] = max(number, numbers.get(handle, 0))
    return next((handle for handle, number in numbers.items() if number == raw), None)


def _holders(views: Sequence[View]) -> dict[int, tuple[Holder, int]]:
    """Each by its handle, with the number of nodes that know it."""
    times: Counter[int] = Counter()
    best: dict[int, Holder] = {}
    for view in views:
        for handle, mode, raw, left, shown in view[0]:
            times[handle] += 1
            holder = person(mode, shown)._replace(raw=raw or None, ttl_left=left / 1000)
            known = best.get(handle)
            if known is None or (holder.raw or 0) > (known.raw or 0):
                best[handle] = holder
    return {handle: (best[handle], count) for handle, count in times.items()}


def _waiters(views: Sequence[View]) -> tuple[Holder, ...]:
    """In the order of the node that knows most of them."""
    found: dict[int, Holder] = {}
    for view in sorted(views, key=lambda each: -len(each[1])):
        for handle, mode, shown in view[1]:
            found.setdefault(handle, person(mode, shown)._replace(since=None))
    return tuple(found.values())


def scan(cursor: bytes) -> Words:
    packed = wire.pack(b"SCAN", cursor, b"MATCH", b"*:{*}" + SUFFIX + b"*", b"COUNT", b"1000")
    return lambda _line: (_NONE, packed)


def key_of(found: bytes) -> str | None:
    """The lock that a key of a node belongs to, if any."""
    for part in PARTS:
        if found.endswith(SUFFIX + part):
            place = lock_keys.key_of(found.removesuffix(SUFFIX + part))
            return None if place is None or place[1] else place[0]
    return None
