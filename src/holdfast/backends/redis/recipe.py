"""What is sent for each verb, and what the answers mean. Pure: knows no connection."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from holdfast.backends.redis import naming
from holdfast.backends.redis.scripts import (
    ACQUIRE,
    ADOPT,
    DOWNGRADE,
    GATHER,
    INSPECT,
    RELEASE,
    RENEW,
    Script,
)
from holdfast.core.values import Claim, Holder, LockInfo, Mode

DEFAULT_TTL: Final = 30.0
GRANT: Final = 3.0
"""Seconds a grant lives that was made for a waiter and not confirmed yet: as in settle.lua."""
TOMBSTONE: Final = 60.0
BROKEN: Final = b"holdfast:broken"
"""The channel on which inspect.lua tells the id of every hold that was broken by force."""
_MODES: Final = {"s": Mode.SHARED, "p": Mode.PERMIT}
_MOST_KEPT: Final = 4096


def _head(script: Script, arguments: int) -> bytes:
    return b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n5\r\n" % (8 + arguments, script.sha)


_ACQUIRE = _head(ACQUIRE, 5)
_RELEASE = _head(RELEASE, 2)
_RENEW = _head(RENEW, 2)
_DOWNGRADE = _head(DOWNGRADE, 1)
_ADOPT = _head(ADOPT, 6)
_INSPECT = _head(INSPECT, 2)
_NO_TOMBSTONE = b"$1\r\n0\r\n"


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


NOWHERE = bulk(b"")
"""Where a mere try is told of a grant: it does not stand in line."""
_SECOND = bulk(b"1.000")


def _milliseconds(seconds: float) -> bytes:
    return b"%d" % math.ceil(seconds * 1000)


class Recipe:
    """Makes commands; keeps the parts of them that come again."""

    def __init__(self) -> None:
        self._here = [socket.gethostname(), os.getpid()]
        self._places: dict[tuple[str, bool], bytes] = {}
        self._shown: dict[tuple[str, str, str | None], bytes] = {}
        self._ttls: dict[float | None, bytes] = {}

    def acquire(self, claim: Claim, reply_to: bytes) -> bytes:
        if claim.mode is Mode.EXCLUSIVE and claim.owner is None:
            terms = self._ttls.get(claim.ttl) or self._plain_terms(claim.ttl)
        else:
            terms = _terms(claim)
        value = self.value(claim)
        place = self.place(claim.key, claim.mode is Mode.PERMIT)
        return b"%b%b$%d\r\n%b\r\n%b%b" % (_ACQUIRE, place, len(value), value, terms, reply_to)

    def gather(self, claims: Sequence[Claim]) -> bytes:
        """One acquire for all of them."""
        keys = [self.place(claim.key, claim.mode is Mode.PERMIT) for claim in claims]
        words = [bulk(self.value(claim)) + _terms(claim) for claim in claims]
        count = len(claims)
        head = b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % (3 + count * 9, GATHER.sha)
        return b"".join((head, bulk(b"%d" % (count * 5)), *keys, *words))

    def release(self, claim: Claim, *, doubtful: bool) -> bytes:
        stone = bulk(_milliseconds(_tombstone(claim))) if doubtful else _NO_TOMBSTONE
        place = self.place(claim.key, claim.mode is Mode.PERMIT)
        return b"%b%b$32\r\n%b\r\n%b" % (_RELEASE, place, claim.id.encode(), stone)

    def renew(self, claim: Claim, ttl: float | None = None) -> bytes:
        left = bulk(_milliseconds(ttl or claim.ttl or DEFAULT_TTL))
        place = self.place(claim.key, claim.mode is Mode.PERMIT)
        return b"%b%b$32\r\n%b\r\n%b" % (_RENEW, place, claim.id.encode(), left)

    def downgrade(self, claim: Claim) -> bytes:
        return _DOWNGRADE + self.place(claim.key, False) + bulk(claim.id.encode())

    def adopt(self, parked: Claim, claim: Claim) -> bytes:
        place = self.place(claim.key, claim.mode is Mode.PERMIT)
        stone = bulk(_milliseconds(_tombstone(parked)))
        old, new = bulk(parked.id.encode()), bulk(self.value(claim))
        return b"".join((_ADOPT, place, old, new, _terms(claim), stone))

    def inspect(self, key: str, *, permits: bool) -> bytes:
        return _INSPECT + self.place(key, permits) + bulk(b"") + bulk(b"")

    def break_hold(self, key: str, raw: int | None, *, permits: bool) -> bytes:
        only = b"" if raw is None else b"%d" % raw
        return _INSPECT + self.place(key, permits) + bulk(only) + bulk(b"break")

    def inbox(self, claim: Claim, generation: int) -> bytes:
        """Where a pushed grant is left, as settle.lua names it."""
        hold = naming.hold_key(claim.key, permits=claim.mode is Mode.PERMIT)
        return b"%b:inbox:%b%d" % (hold, claim.id[:16].encode(), generation)

    def pop(self, claim: Claim, generation: int, seconds: float) -> bytes:
        """Sleep until something is in the inbox."""
        inbox = self.inbox(claim, generation)
        most = _SECOND if seconds == 1.0 else bulk(b"%.3f" % max(0.001, seconds))
        return b"*3\r\n$5\r\nBLPOP\r\n$%d\r\n%b\r\n%b" % (len(inbox), inbox, most)

    def place(self, key: str, permits: bool) -> bytes:
        """The five keys of a lock, packed."""
        known = self._places.get((key, permits))
        if known is None:
            if len(self._places) >= _MOST_KEPT:
                self._places.clear()
            hold = naming.hold_key(key, permits=permits)
            known = b"".join(bulk(hold + part.encode()) for part in naming.PARTS)
            self._places[key, permits] = known
        return known

    def _plain_terms(self, ttl: float | None) -> bytes:
        if len(self._ttls) >= _MOST_KEPT:
            self._ttls.clear()
        left = bulk(_milliseconds(ttl or DEFAULT_TTL))
        terms = self._ttls[ttl] = left + bulk(b"x") + bulk(b"1")
        return terms

    def value(self, claim: Claim) -> bytes:
        """The id, since when (by our clock: shown, never decided on), and who it is."""
        who = claim.who, claim.label, claim.owner
        shown = self._shown.get(who)
        if shown is None:
            if len(self._shown) >= _MOST_KEPT:
                self._shown.clear()
            shown = json.dumps([*self._here, *who], separators=(",", ":")).encode()
            self._shown[who] = shown
        return b"%b%010d%b" % (claim.id.encode(), time.time(), shown)


def _terms(claim: Claim) -> bytes:
    ttl = _milliseconds(claim.ttl or DEFAULT_TTL)
    return bulk(ttl) + bulk(mode_of(claim)) + bulk(b"%d" % claim.permits)


def mode_of(claim: Claim) -> bytes:
    """As the scripts call it."""
    if claim.mode is not Mode.EXCLUSIVE:
        return b"s" if claim.mode is Mode.SHARED else b"p"
    return b"x" if claim.owner is None else b"o" + quote(claim.owner, safe="").encode()


def _tombstone(claim: Claim) -> float:
    return max(claim.ttl or DEFAULT_TTL, TOMBSTONE)


def seen(key: str, permits: bool, reply: Any) -> LockInfo | None:
    """What `inspect` told of one key; None if nobody holds it or waits."""
    holders = tuple(_holder(*each) for each in reply[0])
    waiters = tuple(_waiter(*each) for each in reply[1])
    if not holders and not waiters:
        return None
    limits = [each[3] for each in reply[0]] + [each[1] for each in reply[1]]
    return LockInfo(key, holders, waiters, max(limits) if permits else None)


def merged(first: LockInfo, second: LockInfo) -> LockInfo:
    """A lock and a semaphore of one name are shown together."""
    return LockInfo(
        first.name,
        first.holders + second.holders,
        first.waiters + second.waiters,
        first.permits or second.permits,
    )


def _holder(mode: bytes, raw: int, left: int, _limit: int, shown: bytes) -> Holder:
    ttl_left = left / 1000 if left >= 0 else None
    return person(mode, shown)._replace(raw=raw or None, ttl_left=ttl_left)


def _waiter(mode: bytes, _limit: int, shown: bytes) -> Holder:
    return person(mode, shown)._replace(since=None)


def person(mode: bytes, shown: bytes) -> Holder:
    """Somebody, as far as what stands there can be read: it may not be ours."""
    kind = _MODES.get(mode.decode(), Mode.EXCLUSIVE)
    try:
        host, pid, who, label, owner = json.loads(shown[10:])
        return Holder(host, pid, who, label, kind, since=float(shown[:10]), owner=owner)
    except ValueError:
        return Holder(mode=kind)
