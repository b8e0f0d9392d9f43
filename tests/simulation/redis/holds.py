"""Reads the keys of locks as the history tells of them: who holds, who waits, what is left over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from locknut.backends.redis import lock_keys
from locknut.core.values import Claim, Mode
from tests.simulation.redis.keys import Hash, Keys, ZSet

_MODES = {b"x": Mode.EXCLUSIVE, b"s": Mode.SHARED, b"p": Mode.PERMIT}


class Seen(NamedTuple):
    """One holder, as the keys say."""

    claim: Claim
    raw: int
    ends: float
    """The first millisecond at which it holds no more."""


def holds(keys: Keys) -> Iterator[Seen]:
    for name in keys.names():
        found = lock_keys.key_of(name)
        if found is None or name.endswith(b":line"):
            continue
        if keys.kind(name) == "string":
            yield _alone(keys, name, found[0])
        elif keys.kind(name) == "zset":
            yield from _together(keys, name, found[0])


def _alone(keys: Keys, name: bytes, key: str) -> Seen:
    value = keys.find(name, bytes) or b""
    end = keys.end(name)
    raw = int(keys.find(name + b":fence", bytes) or 0)
    return Seen(Claim(key, value[:32].decode()), raw, float("inf") if end is None else end + 1)


def _together(keys: Keys, name: bytes, key: str) -> Iterator[Seen]:
    info = keys.find(name + b":info", Hash) or Hash()
    for member, score in keys.make(name, ZSet).items():
        if score <= keys.now:
            continue
        words = info.get(b"=" + member, b"? 0 1 ").split(b" ", 3)
        owner = words[0][1:].decode() if words[0][:1] == b"o" else None
        mode = _MODES.get(words[0], Mode.EXCLUSIVE)
        claim = Claim(key, member.decode(), mode=mode, permits=int(words[2]), owner=owner)
        yield Seen(claim, int(words[1]), score)


def places_in_line(keys: Keys) -> Iterator[tuple[str, str]]:
    for name in keys.names():
        found = lock_keys.key_of(name)
        if found is not None and name.endswith(b":line"):
            for member in keys.make(name, ZSet):
                yield found[0], member.decode()


def silent(keys: Keys) -> set[str]:
    """Claims in line whose client is taken for dead: they could not be taken back in an outage.
    Whoever asks next drops them; a tombstone may keep them for as long as itself.
    """
    found: set[str] = set()
    for name in keys.names():
        if name.endswith(b":line"):
            info = keys.find(name.removesuffix(b"line") + b"info", Hash) or Hash()
            alive = keys.find(name.removesuffix(b"line") + b"alive", ZSet) or ZSet()
            for member in keys.make(name, ZSet):
                client = [*info.get(member, b"").split(b" ", 5), b"", b"", b"", b"", b""][4]
                if alive.get(client, 0.0) <= keys.now:
                    found.add(member.decode())
    return found


def surplus(keys: Keys) -> Iterator[str]:
    """What should not be there once nobody holds and nobody who is alive waits."""
    dead = silent(keys)
    for name in keys.names():
        if keys.end(name) is None:
            yield f"{name.decode()} without an end"
        elif name.endswith(b":alive"):
            members = keys.make(name, ZSet).items()
            if any(member[:1] != b"-" and ends > keys.now for member, ends in members):
                yield f"{name.decode()}, with more than tombstones"
        elif name.endswith(b":info"):
            if not keys.has(name.removesuffix(b"info") + b"alive"):
                yield f"{name.decode()}, and no tombstone that keeps it"
        elif name.endswith(b":line"):
            if any(member.decode() not in dead for member in keys.make(name, ZSet)):
                yield name.decode()
        elif not name.endswith(b":fence") and b":broken:" not in name:  # a note runs out by itself
            yield name.decode()
