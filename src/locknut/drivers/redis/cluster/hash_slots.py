"""Which slot a command is for, which node has that slot, and what nodes say about it. Pure."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hiredis import ReplyError

from locknut.drivers.redis.settings import Settings

if TYPE_CHECKING:
    from locknut.drivers.redis.cluster.views import NodeView

SLOTS: Final = 16384
Address = tuple[str, int]
_KEYLESS: Final = frozenset({b"SCRIPT", b"WAIT", b"SCAN"})


def slot_of(key: bytes) -> int:
    """By the part in braces if there is one, or else by all of it."""
    start = key.find(b"{")
    if start >= 0:
        end = key.find(b"}", start + 1)
        if end > start + 1:
            key = key[start + 1 : end]
    return crc_hqx(key, 0) % SLOTS


def key_of(packed: bytes) -> bytes | None:
    """The first key of a command: all its keys are in one slot. None: it has no key."""
    words = packed.split(b"\r\n", 8)
    if words[2] == b"EVALSHA":  # *n $7 EVALSHA $40 sha $1 5 $length key
        return words[8][: int(words[7][1:])]
    if words[2] in _KEYLESS:
        return None
    return packed.split(b"\r\n", 4)[4][: int(words[3][1:])]


class Redirect(NamedTuple):
    """A node said that another is to be asked: from now on (moved), or just this once."""

    moved: bool
    slot: int
    address: Address


def redirect(reply: Any, host: str) -> Redirect | None:
    """What an answer of the node at `host` says about where to go instead, if it does."""
    if not isinstance(reply, ReplyError):
        return None
    kind, *words = str(reply).split(" ")
    if kind not in {"MOVED", "ASK"}:
        return None
    place, _, port = words[1].rpartition(":")
    return Redirect(kind == "MOVED", int(words[0]), (place or host, int(port)))


class SlotMap:
    """Which node has which slot, as far as is known; shared by all connections of an engine."""

    def __init__(self, seeds: list[Settings]):
        self._seeds = seeds
        self._owners: list[Address | None] = [None] * SLOTS
        self.stale = True
        """Whether to ask the cluster before the next command."""

    def owner(self, slot: int) -> Address | None:
        return self._owners[slot]

    def masters(self) -> list[Address]:
        return list(dict.fromkeys(each for each in self._owners if each is not None))

    def learn(self, view: NodeView) -> None:
        """What the best of the nodes said."""
        owners: list[Address | None] = [None] * SLOTS
        for first, last, address in view.ranges:
            owners[first : last + 1] = [address] * (last - first + 1)
        self._owners = owners
        self.stale = False

    def moved(self, redirect: Redirect) -> None:
        """One slot for certain, so others are likely: all are looked at again soon."""
        self._owners[redirect.slot] = redirect.address
        self.stale = True

    def to_ask(self, suspects: set[Address], others: Iterable[Address] = ()) -> list[Settings]:
        """Everybody who might know the slots, those last who are suspected."""
        first = self._seeds[0]
        found = [first.at(*address) for address in self.masters()]
        found += self._seeds
        found += [first.at(*address) for address in dict.fromkeys(others)]
        places = {(each.host, each.port): each for each in found}
        return sorted(places.values(), key=lambda each: (each.host, each.port) in suspects)
