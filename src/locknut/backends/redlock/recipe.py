"""What a node is sent for each verb. Pure: it knows no connection."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Final

from locknut.backends.redis import lock_keys
from locknut.backends.redis.recipe import Recipe as RedisRecipe
from locknut.backends.redis.recipe import bulk, kept, mode_of
from locknut.backends.redlock.questions import Words
from locknut.backends.redlock.scripts import (
    ATTACH,
    DOWNGRADE,
    EXTEND,
    INIT,
    LIST,
    LOOK,
    RAISE,
    VOTE,
    WATCH,
    WITHDRAW,
)
from locknut.core.values import Claim, Mode
from locknut.drivers.redis.lua_scripts import Script

MARKER: Final = b"locknut:redlock"
SUFFIX: Final = b":redlock"
PARTS: Final = (b"", b":fence", b":alive", b":line", b":info")
IN_USE: Final = (b"", b":line")
"""Those that only a lock has which somebody holds or waits for."""
GUARD: Final = 0.5
"""Seconds for which a node keeps a hold beyond the time that its holder counts on. A clock that is
set by more is noticed by every client: it may be a fifth of a second off on either side (S6), and
the other clocks need not agree exactly."""

_PLAINLY: Final = b"$1\r\n0\r\n" * 3
"""The end of a plain withdrawal: no tombstone, it leaves the line, all its tries are over."""


def milliseconds(seconds: float) -> bytes:
    return b"%d" % math.ceil(seconds * 1000)


def _head(script: Script, arguments: int) -> bytes:
    words = 9 + arguments, script.sha
    return b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n6\r\n" % words


class Recipe:
    """Makes the commands for the nodes of one set."""

    def __init__(self, *, max_ttl: float, durable: bool, set_id: str):
        self._redis = RedisRecipe()
        self.max_ttl = max_ttl
        self.set_id = set_id.encode()
        self._terms = milliseconds(max_ttl + GUARD), self.set_id
        self.durable = durable
        self._durable = b"1" if durable else b"0"
        self._places: dict[str, bytes] = {}
        self._tails: dict[bytes, bytes] = {}
        self._asking: dict[tuple[str, float | None, str, str], tuple[bytes, bytes]] = {}
        """What stands before and after id and time in the request for a plain lock."""
        self._giving: dict[str, bytes] = {}
        """What stands before the id in a withdrawal."""

    def vote(self, claim: Claim, number: int, since: int, ring: bytes, tries: int) -> Words:
        counts = b"".join(map(bulk, (b"%d" % number, b"%d" % since, ring, b"%d" % tries)))
        if claim.mode is Mode.EXCLUSIVE and claim.owner is None:
            who = claim.key, claim.ttl, claim.who, claim.label
            front, back = self._asking.get(who) or kept(self._asking, who, self._parts(claim))
        else:
            front, back = self._parts(claim)
        packed = b"%b%b%010d%b%b" % (front, claim.id.encode(), time.time(), back, counts)
        return self._with_run(VOTE, packed)

    def _parts(self, claim: Claim) -> tuple[bytes, bytes]:
        value = self._redis.value(claim)
        front = b"%b%b$%d\r\n" % (_head(VOTE, 9), self._place(claim.key), len(value))
        terms = bulk(self._ttl(claim)) + bulk(mode_of(claim))
        return front, b"%b\r\n%b" % (value[42:], terms)

    def raise_to(self, claim: Claim, number: int) -> Words:
        return self._about(RAISE, claim.key, (claim.id.encode(), b"%d" % number), node=True)

    def extend(
        self, claim: Claim, raw: int, *, anew: bool, detached_for: float | None = None
    ) -> Words:
        value = self._redis.value(claim)
        if detached_for is None:
            left, detaches = self._ttl(claim), b""
        else:
            left, detaches = milliseconds(detached_for + GUARD), b"detach"
        words = (value, left, mode_of(claim), b"%d" % raw, b"1" if anew else b"0", detaches)
        return self._about(EXTEND, claim.key, words, node=True)

    def withdraw(
        self, claim: Claim, *, outcome_unknown: bool, stay: bool = False, tries: int = 0
    ) -> Words:
        """Take back the claim, or only the votes of its first `tries` tries."""
        front = self._giving.get(claim.key)
        if front is None:
            front = b"%b%b$32\r\n" % (_head(WITHDRAW, 4), self._place(claim.key))
            kept(self._giving, claim.key, front)
        if outcome_unknown or stay or tries:
            stone = self._stone() if outcome_unknown else b"0"
            terms = b"".join(map(bulk, (stone, b"1" if stay else b"0", b"%d" % tries)))
        else:
            terms = _PLAINLY
        packed = b"%b%b\r\n%b" % (front, claim.id.encode(), terms)
        return lambda _route: (WITHDRAW, packed)

    def downgrade(self, claim: Claim) -> Words:
        return self._about(DOWNGRADE, claim.key, (claim.id.encode(),))

    def attach(self, detached: Claim, claim: Claim, *, back: bool = False) -> Words:
        stone = b"0" if back else self._stone()
        words = (detached.id.encode(), self._redis.value(claim), self._ttl(claim), stone)
        return self._about(ATTACH, claim.key, words, node=True)

    def look(self, key: str) -> Words:
        return self._about(LOOK, key, (b"", b"", b""))

    def listed(self, keys: Sequence[str]) -> Words:
        """Look at many at once; the answer may be about the first of them only."""
        places = b"".join(lock_keys.packed(hold_key(each)) for each in keys)
        head = b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % (3 + 5 * len(keys), LIST.sha)
        packed = head + bulk(b"%d" % (5 * len(keys))) + places
        return lambda _route: (LIST, packed)

    def break_hold(self, key: str, handle: int | None, note: str) -> Words:
        only = b"" if handle is None else b"%d" % handle
        return self._about(LOOK, key, (only, b"break", note.encode()))

    def watch(self, machine: bytes, shows: float, majority_time: int) -> Words:
        """Tell a node what our machine's clock, which nobody sets, and the nodes' clocks show."""
        words = (machine, milliseconds(shows), b"%d" % majority_time)
        return self._about(WATCH, "locknut:", words, node=True)

    def begin(self, *, force: bool) -> Words:
        return self._about(INIT, "locknut:", (*self._terms, b"1" if force else b"0"))

    def _ttl(self, claim: Claim) -> bytes:
        return milliseconds((claim.ttl or self.max_ttl) + GUARD)

    def _stone(self) -> bytes:
        return milliseconds(self.max_ttl + GUARD)

    def _about(
        self, script: Script, key: str, words: tuple[bytes, ...], *, node: bool = False
    ) -> Words:
        head = _head(script, len(words) + (2 if node else 0))
        packed = b"".join((head, self._place(key), *map(bulk, words)))
        return self._with_run(script, packed) if node else lambda _route: (script, packed)

    def _with_run(self, script: Script, packed: bytes) -> Words:
        return lambda route: (
            script,
            packed + (self._tails.get(route.run) or self._tail(route.run)),
        )

    def _place(self, key: str) -> bytes:
        """The six keys of a lock, packed once and kept: they are sent again and again."""
        known = self._places.get(key)
        if known is None:
            hold = hold_key(key)
            made = b"".join(map(bulk, (MARKER, *(hold + part for part in PARTS))))
            known = kept(self._places, key, made)
        return known

    def _tail(self, run: bytes) -> bytes:
        """The terms on which a node answers: this run of the server, and clients with this
        `max_ttl` and this list of nodes.
        """
        terms = b":".join((run, *self._terms))
        return kept(self._tails, run, bulk(terms) + bulk(self._durable))


def hold_key(key: str) -> bytes:
    return lock_keys.hold_key(key, permits=False) + SUFFIX
