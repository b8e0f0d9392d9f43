"""What is kept in the cache, and the commands that change it.

A lock is one item. While the lock is free, the item says so, and it stays for a while. **Every
change names the CAS id of what it replaces**, so that it is refused if anybody has changed the item
meanwhile: a claim replaces "free", a renewal and a release replace the claim's own item. A command
that was stuck in a dead connection and arrives late names an id that is gone. An item that is not
there is made by the look itself, empty, which means free and does no harm however late it happens;
then it is claimed like any other. (To add one's claim right away, as is usual, would be one round
trip less for a new name; but if that command comes late, after its sender has given up, it takes a
lock that nobody releases. And an `ms` for which the server finds no memory, or whose value is too
long for it, *removes* what stands there, whatever it was to compare: so nobody sends one to see
whether a lock is free, and a long one only where it fits.)

The server counts CAS ids for all of its items together and starts anew when it is restarted, so
the start of the server and the CAS id of a grant make the raw number.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import socket
import time
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Final, NamedTuple

from locknut.backends.memcached.item_keys import key_of
from locknut.core.values import Claim, Holder
from locknut.drivers.memcached.replies import Reply
from locknut.drivers.memcached.server_identity import Greeted
from locknut.errors import BackendError

_json: Final = json.JSONEncoder(separators=(",", ":")).encode
STEPS: Final = 31250
"""Steps of 32 microseconds in a second: as many writes may a server do in each, on average."""
FREE: Final = b"free"
_MADE_BY_A_LOOK: Final = frozenset({b"W", b"Z"})
"""How the server tells that nobody has put a value there yet: to the first who looks, to others."""
FREE_FOR: Final = 300
"""Seconds for which an item that says "free" stays after its last use."""
NOTE_FOR: Final = 60
"""Seconds for which a holder can learn who broke its lock."""
EARLY: Final = 2
"""Seconds by which an item may end too early: the server's clock shows whole seconds and is turned
once in each, both when it tells us the time and when it ends the item."""
AROUND: Final = 200
"""Bytes by which an item may be longer than its key and value: what the server adds to them, and
the number of the grant, which a renewal adds."""
SMALL: Final = 1024 - AROUND
"""Bytes of a command whose item every server stores: none can be told to refuse one of a KiB."""


class Item(NamedTuple):
    """What stands under a key."""

    cas: int
    claim_id: str = ""
    """Of the holder; empty: the lock is free."""
    raw: int = 0
    """The number of the grant; 0 before the first renewal: then the CAS id tells it."""
    name: str = ""
    facts: tuple[str, str, str, int | None, float] = ("", "", "", None, 0.0)
    """Who, label, host, process, and since when by the holder's clock: for people."""
    barred: tuple[str, ...] | None = None
    """Of a detached hold, the claims that gave up attaching it. Nothing that comes late shortens a
    detached hold."""
    end: int = 0
    """Of a detached hold, the moment of its end by the server's clock. Whoever is barred from it
    writes it anew, and that may come late: it must not live for longer by that."""
    left: float = 0.0
    """Seconds that it will live."""

    def number(self, server: Greeted) -> int:
        return self.raw or raw_of(server.start, self.cas)

    def holder(self, server: Greeted) -> Holder:
        *_, pid, since = self.facts
        # Anybody may have written the item: what is of another kind says nothing.
        who, label, host = (each if isinstance(each, str) else "" for each in self.facts[:3])
        return Holder(
            host,
            pid if isinstance(pid, int) else None,
            who,
            label,
            raw=self.number(server),
            since=since if isinstance(since, int | float) and abs(since) < 1e12 else None,
            ttl_left=self.left,
        )


def raw_of(start: int, cas: int) -> int:
    return start * STEPS + cas


def claimed(
    claim: Claim, raw: int = 0, barred: tuple[str, ...] | None = None, end: int = 0
) -> bytes:
    """The value of an item that this claim holds; with `barred`, detached until `end`."""
    given_up = "null" if barred is None else _json([end, *barred])
    told = _told(claim.key, claim.who, claim.label, os.getpid())
    text = f"[{_quoted(claim.id)},{raw},{told[0]},{given_up},{told[1]},{time.time()}]"
    return text.encode()


@lru_cache(maxsize=1024)
def _told(key: str, who: str, label: str, pid: int) -> tuple[str, str]:
    """What stays the same from one hold of a lock to the next."""
    return _quoted(key), _json([who, label, socket.gethostname(), pid])[1:-1]


def kept(item: Item, barred: str) -> bytes:
    """The value of a detached hold as it is, but that this claim cannot attach it any more."""
    given_up = [item.end, *(item.barred or ()), barred]
    value = [item.claim_id, item.raw, item.name, given_up, *item.facts]
    return _json(value).encode()


def note_key(claim_id: str) -> bytes:
    """Where the note for the holder of a broken lock is kept; it does not tell the claim's id."""
    return b"locknut-note#" + hashlib.sha256(claim_id.encode()).hexdigest().encode()


def leave_note(claim_id: str, note: str) -> bytes:
    value = note.encode()
    return b"ms %s %d T%d\r\n%s\r\n" % (note_key(claim_id), len(value), NOTE_FOR, value)


def look(key: bytes) -> bytes:
    """Asks for value, CAS id and time to live."""
    return b"mg %s v c t\r\n" % key


def look_or_make(key: bytes) -> bytes:
    """`look`, and where there is no item, an empty one is made: that is free, too."""
    return b"mg %s v c t N%d\r\n" % (key, FREE_FOR)


def replace(key: bytes, cas: int, value: bytes, end: int) -> bytes:
    """Puts a value in the place of the item with this CAS id, and asks for the new one. `end` is a
    moment or, for what may end early, a number of seconds.
    """
    return b"ms %s %d T%d C%d c\r\n%s\r\n" % (key, len(value), end, cas, value)


def checked(key: bytes, value: bytes, server: Greeted) -> bytes:
    """The value; raises if the server would not store it. The server would remove what stands there
    instead, and that may be another client's by then.
    """
    size = len(key) + len(value) + AROUND
    if size > server.longest:
        message = (
            f"the item of this lock takes {size} bytes, and the memcached stores at most "
            f"{server.longest} (-I): use a shorter label or name"
        )
        raise BackendError(message, backend="memcached")
    return value


def renew(claim: Claim, cas: int, raw: int, clock: float) -> bytes:
    """`replace` of the claim's own item by the same for the full ttl; it keeps its number."""
    return replace(key_of(claim.key), cas, claimed(claim, raw), end_of(claim.ttl, clock))


def claim_known(claim: Claim, cas: int, clock: float) -> bytes:
    """`replace` of a free item by this claim. Most of it is the same for every hold of a lock."""
    key, id_, ttl, _, _, _, _, who, label, _, _ = claim
    item_key, facts = _claim_parts(key, who, label)
    value = b'["%b",0,%b%.6f]' % (id_.encode(), facts, time.time())
    end = math.ceil(clock + (ttl or 0.0)) + EARLY  # as `end_of`, in place
    packed = item_key, len(value), end, cas, value
    return b"ms %b %d T%d C%d c\r\n%b\r\n" % packed


@lru_cache(maxsize=4096)
def _claim_parts(key: str, who: str, label: str) -> tuple[bytes, bytes]:
    """The item's key, and what its value says between the claim's id and the time."""
    named, told = _told(key, who, label, os.getpid())
    return key_of(key), f"{named},null,{told},".encode()


if hasattr(os, "register_at_fork"):  # a child has another number
    os.register_at_fork(after_in_child=_claim_parts.cache_clear)


def free_known(key: str, cas: int) -> bytes:
    """`replace` of a held item by a free one."""
    return b"%b%d c\r\n%b\r\n" % (_free_part(key), cas, FREE)


@lru_cache(maxsize=4096)
def _free_part(key: str) -> bytes:
    return b"ms %b %d T%d C" % (key_of(key), len(FREE), FREE_FOR)


def end_of(ttl: float | None, clock: float) -> int:
    """When an item has to end, so that it lives for its ttl at least; `clock` is the server's. It
    takes so great a number for a moment, and not for a while (`drivers/memcached/server_clocks`).
    """
    return math.ceil(clock + (ttl or 0.0)) + EARLY


def read(reply: Reply) -> Item | None:
    """The item that a look found; None if there is none, or what is there is not ours."""
    if reply.code != b"VA":
        return None
    if reply.data == FREE or (not reply.data and _MADE_BY_A_LOOK.intersection(reply.words)):
        return Item(reply.cas)
    left = float(reply.flag(b"t") or -1)
    try:
        claim_id, raw, name, barred, *facts = json.loads(reply.data)
        who, label, host, pid, since = facts
        end, *given_up = (0,) if barred is None else barred
    except (ValueError, TypeError, RecursionError):
        return _foreign(reply.cas, left)
    if not claim_id or (type(claim_id), type(raw), type(name)) != (str, int, str):
        return _foreign(reply.cas, left)
    known = (who, label, host, pid, since)
    detached = None if barred is None else tuple(given_up)
    return Item(reply.cas, claim_id, raw, name, known, detached, end, left - EARLY)


def _foreign(cas: int, left: float) -> Item:
    return Item(cas, claim_id="?", facts=("", "not by Locknut", "", None, 0.0), left=left)
