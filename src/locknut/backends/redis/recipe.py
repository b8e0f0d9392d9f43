"""What is sent for each verb, and what the answers mean. Pure: knows no connection."""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import quote

from locknut.backends.redis import lock_keys
from locknut.backends.redis.scripts import (
    ACQUIRE,
    ATTACH,
    ATTEND,
    DOWNGRADE,
    GATHER,
    INSPECT,
    RELEASE,
    RENEW,
)
from locknut.core.values import Claim, Holder, LockInfo, Mode
from locknut.drivers.redis.lua_scripts import Script

K = TypeVar("K")
V = TypeVar("V")

DEFAULT_TTL: Final = 30.0
GRANT: Final = 3.0
"""Seconds a grant lives that was made for a waiter and not confirmed yet: as in keys.lua."""
TOMBSTONE: Final = 120.0
"""Seconds for which a late sending of a claim finds the door shut. What comes late is a command
that its sender gave up: where the path is dead, the kernel sends it again for some 100 s after the
connection was closed, and no longer. That has nothing to do with any ttl."""
BROKEN: Final = b"locknut:broken"
"""The channel on which inspect.lua tells the id of every hold that was broken by force; where there
is a note to its holder, the id and the note before that."""
_MODES: Final = {"s": Mode.SHARED, "p": Mode.PERMIT}
_MOST_KEPT: Final = 4096


def _head(script: Script, arguments: int, keys: int = 5) -> bytes:
    words = 3 + keys + arguments
    return b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n%d\r\n" % (words, script.sha, keys)


_ACQUIRE = _head(ACQUIRE, 6)
_RELEASE = _head(RELEASE, 2)
_RENEW = _head(RENEW, 3)
_RENEW_ONE = _head(RENEW, 3, keys=1)
_DOWNGRADE = _head(DOWNGRADE, 1)
_ATTACH = _head(ATTACH, 7)
_INSPECT = _head(INSPECT, 3)
_POP = b"*3\r\n$5\r\nBLPOP\r\n"
_NO_TOMBSTONE = b"$1\r\n0\r\n"


def bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


NOTHING_SAID = bulk(b"")
NOWHERE = NOTHING_SAID
"""Where the message of a grant to a non-blocking attempt goes: nowhere, it never stands in line."""
_DETACH = bulk(b"detach")
_BACK = bulk(b"back")
_SECOND = bulk(b"1.000")


def _milliseconds(seconds: float) -> bytes:
    return b"%d" % math.ceil(seconds * 1000)


_STONE = bulk(_milliseconds(TOMBSTONE))


def kept(known: dict[K, V], key: K, made: V) -> V:
    """Remembered for the next time; all is forgotten when it is too much."""
    if len(known) >= _MOST_KEPT:
        known.clear()
    known[key] = made
    return made


class Recipe:
    """Makes commands; keeps the parts of them that come again."""

    def __init__(self) -> None:
        self._places: dict[tuple[str, bool], bytes] = {}
        self._shown: dict[tuple[str, str, str | None], bytes] = {}
        self._asking: dict[tuple[str, float | None, str, str], tuple[bytes, bytes]] = {}
        """What stands before and behind id and time when a plain lock is asked for."""
        self._giving: dict[str, bytes] = {}
        self._popping: dict[str, bytes] = {}
        """What stands before the id when a lock is given back, and when it is waited for."""
        self._here: list[str | int] = []
        self._client = b""
        """By which the server knows that those of our claims that wait are alive."""
        self.forked()

    def forked(self) -> None:
        """Also in a forked child, which is another client than its parent."""
        self._shown.clear()
        self._asking.clear()
        self._here = [socket.gethostname(), os.getpid()]
        self._client = bulk(os.urandom(8).hex().encode())

    def acquire(self, claim: Claim, reply_to: bytes) -> bytes:
        key, id_, ttl, mode, _, _, owner, who, label, _, _ = claim
        if mode is not Mode.EXCLUSIVE or owner is not None:
            words = self.place(key, mode is Mode.PERMIT), bulk(self.value(claim)), _terms(claim)
            return b"".join((_ACQUIRE, *words, reply_to, self._client))
        known = self._asking.get((key, ttl, who, label)) or self._known_asking(claim)
        to = reply_to + self._client
        return b"%b%b%010d%b%b" % (known[0], id_.encode(), time.time(), known[1], to)

    def attend(self, claim: Claim, ids: Sequence[str]) -> bytes:
        """We are there, for all our claims to this name; ask whether one of these is lost."""
        head = b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n5\r\n" % (9 + len(ids), ATTEND.sha)
        place = self.place(claim.key, claim.mode is Mode.PERMIT)
        return b"".join((head, place, self._client, *(bulk(each.encode()) for each in ids)))

    def _known_asking(self, claim: Claim) -> tuple[bytes, bytes]:
        value = self.value(claim)
        front = b"%b%b$%d\r\n" % (_ACQUIRE, self.place(claim.key, False), len(value))
        made = front, b"%b\r\n%b" % (value[42:], _terms(claim))
        return kept(self._asking, (claim.key, claim.ttl, claim.who, claim.label), made)

    def gather(self, claims: Sequence[Claim]) -> bytes:
        """One acquire for all of them."""
        keys = [self.place(claim.key, claim.mode is Mode.PERMIT) for claim in claims]
        words = [bulk(self.value(claim)) + _terms(claim) for claim in claims]
        count = len(claims)
        head = b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % (3 + count * 9, GATHER.sha)
        return b"".join((head, bulk(b"%d" % (count * 5)), *keys, *words))

    def release(self, claim: Claim, *, outcome_unknown: bool) -> bytes:
        stone = _STONE if outcome_unknown else _NO_TOMBSTONE
        if claim.mode is Mode.PERMIT:
            front = b"%b%b$32\r\n" % (_RELEASE, self.place(claim.key, True))
        else:
            front = self._giving.get(claim.key) or self._known_giving(claim.key)
        return b"%b%b\r\n%b" % (front, claim.id.encode(), stone)

    def _known_giving(self, key: str) -> bytes:
        return kept(self._giving, key, b"%b%b$32\r\n" % (_RELEASE, self.place(key, False)))

    def renew(self, claim: Claim, *, whole: bool = False) -> bytes:
        return self._set_time(claim, claim.ttl or DEFAULT_TTL, NOTHING_SAID, whole)

    def detach(self, claim: Claim, ttl: float, *, whole: bool = False) -> bytes:
        return self._set_time(claim, ttl, _DETACH, whole)

    def _set_time(self, claim: Claim, ttl: float, how: bytes, whole: bool) -> bytes:
        """A plain hold is one key, and names no other, unless the whole lock has to be seen to."""
        # Of ten thousand leases each is renewed once in a while: to keep its words would cost more.
        hold = lock_keys.hold_key(claim.key, permits=claim.mode is Mode.PERMIT)
        if whole or claim.mode is not Mode.EXCLUSIVE or claim.owner is not None:
            head, place = _RENEW, lock_keys.packed(hold)
        else:
            head, place = _RENEW_ONE, b"$%d\r\n%b\r\n" % (len(hold), hold)
        left = _milliseconds(ttl)
        words = head, place, claim.id.encode(), len(left), left, how
        return b"%b%b$32\r\n%b\r\n$%d\r\n%b\r\n%b" % words

    def downgrade(self, claim: Claim) -> bytes:
        return _DOWNGRADE + self.place(claim.key, False) + bulk(claim.id.encode())

    def attach(self, detached: Claim, claim: Claim) -> bytes:
        return self._swap(detached, claim, NOTHING_SAID)

    def undo_attach(self, claim: Claim, detached: Claim) -> bytes:
        return self._swap(claim, detached, _BACK)

    def _swap(self, old: Claim, new: Claim, how: bytes) -> bytes:
        place = self.place(new.key, new.mode is Mode.PERMIT)
        words = bulk(old.id.encode()), bulk(self.value(new)), _terms(new), _STONE, how
        return b"".join((_ATTACH, place, *words))

    def inspect(self, key: str, *, permits: bool, only: bytes = b"") -> bytes:
        return _INSPECT + self.place(key, permits) + bulk(b"") + bulk(only) + NOTHING_SAID

    def break_hold(self, key: str, raw: int | None, note: str, *, permits: bool) -> bytes:
        only = b"" if raw is None else b"%d" % raw
        words = map(bulk, (only, b"break", note.encode()))
        return b"".join((_INSPECT, self.place(key, permits), *words))

    def inbox(self, claim: Claim, generation: int) -> bytes:
        """Where a pushed grant is left, as granting.lua names it."""
        hold = lock_keys.hold_key(claim.key, permits=claim.mode is Mode.PERMIT)
        return b"%b:inbox:%b%d" % (hold, claim.id[:16].encode(), generation)

    def pop(self, claim: Claim, generation: int, seconds: float) -> bytes:
        """Sleep until something is in the inbox."""
        most = _SECOND if seconds > 0.9995 else bulk(b"%.3f" % max(0.001, seconds))
        if generation or claim.mode is Mode.PERMIT:
            inbox = self.inbox(claim, generation)
            return b"%b$%d\r\n%b\r\n%b" % (_POP, len(inbox), inbox, most)
        front = self._popping.get(claim.key) or self._known_popping(claim)
        return b"%b%b0\r\n%b" % (front, claim.id[:16].encode(), most)

    def _known_popping(self, claim: Claim) -> bytes:
        inbox = self.inbox(claim, 0)
        return kept(self._popping, claim.key, b"%b$%d\r\n%b" % (_POP, len(inbox), inbox[:-17]))

    def place(self, key: str, permits: bool) -> bytes:
        """The five keys of a lock, packed."""
        known = self._places.get((key, permits))
        if known is None:
            known = lock_keys.packed(lock_keys.hold_key(key, permits=permits))
            kept(self._places, (key, permits), known)
        return known

    def value(self, claim: Claim) -> bytes:
        """The id, since when (by our clock: shown, never decided on), its ttl, and who it is."""
        who = claim.who, claim.label, claim.owner
        shown = self._shown.get(who)
        if shown is None:
            shown = json.dumps([*self._here, *who], separators=(",", ":")).encode()
            kept(self._shown, who, shown)
        ttl = math.ceil((claim.ttl or DEFAULT_TTL) * 1000)
        return b"%b%010d%010d%b" % (claim.id.encode(), time.time(), ttl, shown)


def _terms(claim: Claim) -> bytes:
    ttl = _milliseconds(claim.ttl or DEFAULT_TTL)
    return bulk(ttl) + bulk(mode_of(claim)) + bulk(b"%d" % claim.permits)


def mode_of(claim: Claim) -> bytes:
    """As the scripts call it."""
    if claim.mode is not Mode.EXCLUSIVE:
        return b"s" if claim.mode is Mode.SHARED else b"p"
    return b"x" if claim.owner is None else b"o" + quote(claim.owner, safe="").encode()


def seen(key: str, permits: bool, reply: Any) -> LockInfo | None:
    """The answer of `inspect` for one key; None if nobody holds it or waits."""
    holders = tuple(_holder(*each) for each in reply[0])
    waiters = tuple(_waiter(*each) for each in reply[1])
    if not holders and not waiters:
        return None
    limits = [each[3] for each in reply[0]] + [each[1] for each in reply[1]]
    return LockInfo(key, holders, waiters, max(limits) if permits else None)


def by_name(found: Iterable[LockInfo]) -> list[LockInfo]:
    """A lock and a semaphore of one name are shown together."""
    known: dict[str, LockInfo] = {}
    for info in found:
        before = known.get(info.name)
        known[info.name] = info if before is None else _merged(before, info)
    return list(known.values())


def _merged(first: LockInfo, second: LockInfo) -> LockInfo:
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
        host, pid, who, label, owner = json.loads(shown[20:])
        since = int(shown[:10])
    except (ValueError, TypeError, RecursionError):
        return Holder(mode=kind)
    texts = all(isinstance(each, str) for each in (host, who, label))
    if not (texts and isinstance(owner, str | None) and isinstance(pid, int | None)):
        return Holder(mode=kind)
    return Holder(host, pid, who, label, kind, since=float(since), owner=owner)
