"""Who holds and who waits, as a majority of the nodes sees it; and how a hold is broken.

Both ask every node and wait for all answers, unlike the verbs of the lock itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from locknut.backends.redis import lock_keys
from locknut.backends.redis.recipe import person
from locknut.backends.redlock.ballots import Round, majority
from locknut.backends.redlock.no_majority import too_few
from locknut.backends.redlock.nodes import in_words
from locknut.backends.redlock.questions import Question, Words
from locknut.backends.redlock.recipe import IN_USE, SUFFIX
from locknut.backends.redlock.rounds import RoundsBackend
from locknut.core.values import Detail, Holder, LockInfo
from locknut.drivers.redis import wire
from locknut.drivers.redis.lua_scripts import Script

BATCH: Final = 100
"""Locks that every node is asked about in one command."""
_NONE = Script(b"", b"")
View = Sequence[Any]
"""What one node answers of one lock: holders, waiters."""
_person = lru_cache(64)(person)
"""All nodes say the same of somebody."""


def majority_view(
    key: str, nodes: Sequence[str], views: Mapping[int, View], problems: Mapping[int, str]
) -> LockInfo:
    """The holders that a majority knows, everybody who waits anywhere, and what each node says."""
    needed = majority(len(nodes))
    known = _holders(list(views.values()))
    holders = {handle: seen for handle, (seen, times) in known.items() if times >= needed}
    details = []
    for at, node in enumerate(nodes):
        if at in views:
            found = _holders([views[at]])
            agrees = found.keys() == holders.keys()
            details.append(Detail(node, tuple(seen for seen, _ in found.values()), agrees))
        else:
            details.append(Detail(node, agrees=False, problem=problems.get(at, "no answer")))
    waiters = _waiters(list(views.values()))
    return LockInfo(key, tuple(holders.values()), waiters, details=tuple(details))


def all_broken(key: str, views: Sequence[View]) -> LockInfo | None:
    """All holds that were broken, on however few nodes."""
    holders = [seen for seen, _ in _holders(views).values()]
    return LockInfo(key, tuple(holders)) if holders else None


def handle_of(views: Sequence[View], raw: int) -> int | None:
    """Whose hold has this number. A hold's number is the largest that any node knows of it."""
    numbers: dict[int, int] = {}
    for view in views:
        for handle, _, number, *_ in view[0]:
            numbers[handle] = max(number, numbers.get(handle, 0))
    return next((handle for handle, number in numbers.items() if number == raw), None)


def _holders(views: Sequence[View]) -> dict[int, tuple[Holder, int]]:
    """Each holder by its handle, with the number of nodes that know it."""
    times: Counter[int] = Counter()
    best: dict[int, Holder] = {}
    for view in views:
        for handle, mode, raw, left, shown in view[0]:
            times[handle] += 1
            holder = _person(mode, shown)._replace(raw=raw or None, ttl_left=left / 1000)
            known = best.get(handle)
            if known is None or (holder.raw or 0) > (known.raw or 0):
                best[handle] = holder
    return {handle: (best[handle], count) for handle, count in times.items()}


def _waiters(views: Sequence[View]) -> tuple[Holder, ...]:
    """The waiters, in the order of the node that knows most of them."""
    found: dict[int, Holder] = {}
    for view in sorted(views, key=lambda each: -len(each[1])):
        for handle, mode, shown in view[1]:
            found.setdefault(handle, _person(mode, shown)._replace(since=None))
    return tuple(found.values())


def scan(prefix: str, cursor: bytes) -> Words:
    match = lock_keys.pattern(prefix) + SUFFIX + b"*"
    packed = wire.pack(b"SCAN", cursor, b"MATCH", match, b"COUNT", b"1000", b"TYPE", b"zset")
    return lambda _route: (_NONE, packed)


def key_of(found: bytes) -> str | None:
    """The lock that a key of a node belongs to, if somebody holds it there or waits for it."""
    for part in IN_USE:
        if found.endswith(SUFFIX + part):
            lock = lock_keys.key_of(found.removesuffix(SUFFIX + part))
            return None if lock is None or lock[1] else lock[0]
    return None


class InspectingBackend(RoundsBackend):
    """Adds what people ask for: inspect and break."""

    async def break_hold(self, key: str, raw: int | None, note: str = "") -> LockInfo | None:
        handle = None
        if raw is not None:
            views = await self._views(self._recipe.look(key))
            handle = handle_of(list(views.answers.values()), raw)
            if handle is None:
                return None
        broken = await self._views(self._recipe.break_hold(key, handle, note))
        return all_broken(key, list(broken.answers.values()))

    async def inspect(self, key: str | None = None) -> list[LockInfo]:
        if key is None:
            return await self.inspect_all("")
        info = await self._look(key)
        return [info] if info.holders or info.waiters else []

    async def inspect_all(self, prefix: str) -> list[LockInfo]:
        return await self._look_at(await self._keys(prefix))

    async def _look_at(self, keys: Sequence[str]) -> list[LockInfo]:
        """Many in one round. A node that kept one round waiting is left out of the next ones."""
        found: list[LockInfo] = []
        asked, start = list(self._all), 0
        while start < len(keys):
            batch = keys[start : start + BATCH]
            views = await self._views(self._recipe.listed(batch), asked)
            asked = [at for at in asked if at not in views.unanswered]
            told = min(len(answer) for answer in views.answers.values())
            found += self._seen(batch[:told], views)
            start += told
        return [info for info in found if info.holders or info.waiters]

    def _seen(self, keys: Sequence[str], views: Round) -> Iterator[LockInfo]:
        """What each lock's own majority says. What a node cannot read is no lock there."""
        problems = {at: in_words(why) for at, why in views.failures.items()}
        for number, key in enumerate(keys):
            answers = {at: answer[number] for at, answer in views.answers.items()}
            known = {at: view for at, view in answers.items() if view is not None}
            odd = dict.fromkeys(answers.keys() - known.keys(), "its keys there cannot be read")
            if len(known) >= views.needed:
                yield majority_view(key, self._names, known, problems | odd)

    async def _look(self, key: str) -> LockInfo:
        views = await self._views(self._recipe.look(key))
        problems = {at: in_words(why) for at, why in views.failures.items()}
        return majority_view(key, self._names, views.answers, problems)

    @property
    def _names(self) -> list[str]:
        return [node.name for node in self._set.nodes]

    async def _views(self, words: Words, nodes: Sequence[int] | None = None) -> Round:
        views = await self._round(words, lambda each: not each.unanswered, nodes, plain=True)
        if len(views.answers) < views.needed:
            raise too_few(self._set, views)
        return views

    async def _keys(self, prefix: str) -> list[str]:
        """Every lock that begins so and is in use at any node. Of those that were used nodes
        remember the numbers for a day.
        """
        found: set[bytes] = set()
        cursors = dict.fromkeys(self._all, b"0")
        while cursors:
            scans = Round(list(cursors), len(self._all))
            heard = self._hears(scans, lambda each: not each.unanswered, plain=True)
            asked = [Question(at, scan(prefix, cursor)) for at, cursor in cursors.items()]
            await self._ask(asked, heard, self._until(scans))
            if len(scans.failures) + len(scans.unanswered) > len(self._all) - scans.needed:
                raise too_few(self._set, scans)
            for _, keys in scans.answers.values():
                found.update(keys)
            cursors = {at: answer[0] for at, answer in scans.answers.items() if answer[0] != b"0"}
        return sorted({key for each in found if (key := key_of(each)) is not None})
