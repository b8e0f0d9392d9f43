"""Which keys a lock has in Redis: all of them in one hash slot, and no two names share one.

`locknut:{invoice:42}` is the hold itself; with `:fence` behind it the number of the last grant,
with `:alive` who waits, with `:line` in which order, with `:info` what they asked for and who they
are. With `:broken:` and part of a claim's id behind it, it is a note to a holder whose lock was
broken. A semaphore of that name has the same with `:permits` in between.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from locknut.core.values import Claim, Mode
from locknut.drivers.redis.cluster.hash_slots import slot_of

SEMAPHORE = ":permits"
_OURS = re.compile(rb"([A-Za-z0-9_.-]+):\{([^{}]+)\}(:permits)?(?:|:line)", re.DOTALL)


def hold_key(key: str, *, permits: bool) -> bytes:
    """`namespace:name` with the name as hash tag; braces in it are escaped, nothing else is."""
    namespace, _, name = key.partition(":")
    if "%" in name or "{" in name or "}" in name:
        name = name.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
    return f"{namespace}:{{{name}}}{SEMAPHORE if permits else ''}".encode()


def hold_key_of(claim: Claim) -> bytes:
    """The first key of the lock, or of the semaphore, that this claim is for."""
    return hold_key(claim.key, permits=claim.mode is Mode.PERMIT)


def one_slot(claims: Iterable[Claim]) -> bool:
    """Whether all these locks are in the same slot of a cluster: no script reaches into two."""
    return len({slot_of(hold_key_of(claim)) for claim in claims}) == 1


def packed(hold: bytes) -> bytes:
    """The five keys of a lock as they are sent: most of what every command has to say."""
    size = len(hold)
    return (
        b"$%d\r\n%b\r\n$%d\r\n%b:fence\r\n$%d\r\n%b:alive\r\n$%d\r\n%b:line\r\n$%d\r\n%b:info\r\n"
        % (size, hold, size + 6, hold, size + 6, hold, size + 5, hold, size + 5, hold)
    )


def pattern(prefix: str) -> bytes:
    """What SCAN is to look for: keys of locks that begin with this `namespace:`, or any."""
    return b"%b{*}*" % (prefix.encode() or b"*:")


def key_of(found: bytes) -> tuple[str, bool] | None:
    """The lock (and whether its semaphore) that a key of the database belongs to, if any."""
    match = _OURS.fullmatch(found)
    if match is None:
        return None
    try:
        namespace, name = match[1].decode(), match[2].decode()
    except UnicodeDecodeError:
        return None  # somebody else's
    plain = name.replace("%7D", "}").replace("%7B", "{").replace("%25", "%")
    return f"{namespace}:{plain}", match[3] is not None
