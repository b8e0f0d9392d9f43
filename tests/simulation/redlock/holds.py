"""Reads the keys of one node: who has its vote, who waits, what is left over."""

from __future__ import annotations

from collections.abc import Iterator

from locknut.backends.redis import lock_keys
from locknut.backends.redlock.recipe import MARKER, SUFFIX
from locknut.core.values import Claim, Mode
from tests.simulation.redis import holds as single
from tests.simulation.redis.holds import Seen
from tests.simulation.redis.keys import Hash, Keys, ZSet

_MODES = {b"x": Mode.EXCLUSIVE, b"s": Mode.SHARED}


def holds(keys: Keys) -> Iterator[Seen]:
    for name in keys.names():
        if name == MARKER or not name.endswith(SUFFIX):
            continue
        info = keys.find(name + b":info", Hash) or Hash()
        for member, score in keys.make(name, ZSet).items():
            if score > keys.now:
                mode, raw, _ = info.get(b"=" + member, b"x 0 ").split(b" ", 2)
                owner = mode[1:].decode() if mode[:1] == b"o" else None
                kind = _MODES.get(mode, Mode.EXCLUSIVE)
                claim = Claim(_lock(name), member.decode(), mode=kind, owner=owner)
                yield Seen(claim, int(raw), score)


def places_in_line(keys: Keys) -> Iterator[tuple[str, str]]:
    for name in keys.names():
        if name.endswith(SUFFIX + b":line"):
            for member in keys.make(name, ZSet):
                yield _lock(name.removesuffix(b":line")), member.decode()


def surplus(keys: Keys) -> Iterator[str]:
    """What should not be there once nobody holds and nobody waits; the marker stays for ever."""
    marker = MARKER.decode()
    return (what for what in single.surplus(keys) if what.partition(" ")[0] != marker)


def _lock(name: bytes) -> str:
    found = lock_keys.key_of(name.removesuffix(SUFFIX))
    assert found is not None
    return found[0]
