"""The names of keys: where the line of a lock stands, who stands there, and what stands beside it.

The line of a lock is everything under `namespace/name/`, as in etcd's own `concurrency` package, so
`etcdctl lock namespace/name` stands in the same line. What is ours alone has a part that begins
with `%`: no name has one, because `%` and `/` are escaped in names.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from locknut.core.values import Claim, Mode

PERMITS: Final = b"%permits"
"""Semaphores stand here: one of the same name as a lock has nothing to do with it."""
_SESSION: Final = b"%session"
_GONE: Final = b"%gone"
_NOTE: Final = b"%note"
_OURS: Final = re.compile(rb"[0-9a-f]+-([0-9a-f]{32})")


class Place(NamedTuple):
    """A key in a line, taken apart."""

    key: str
    """The lock's, as the core knows it."""
    mode: Mode
    """PERMIT for a semaphore's, else EXCLUSIVE."""


@lru_cache(4096)
def line(root: bytes, key: str, mode: Mode) -> bytes:
    """What every key in this line begins with."""
    namespace, _, name = key.partition(":")
    between = PERMITS + b"/" if mode is Mode.PERMIT else b""
    return root + namespace.encode() + b"/" + between + _escaped(name) + b"/"


def own(prefix: bytes, lease: int, claim_id: str) -> bytes:
    """The key of one claim. It has the claim's id and not the lease's alone: a late command of one
    attempt cannot touch the next attempt (L16). Later claims may have the name: see `spare_keys`.
    """
    return b"%s%x-%s" % (prefix, lease, claim_id.encode())


def space(root: bytes, namespace: str) -> bytes:
    """What every key of a namespace begins with."""
    return root + namespace.encode() + b"/"


def session(root: bytes, claim: Claim, lease: int) -> bytes:
    """A key that is there as long as the lease is."""
    return b"%s%s/%x" % (_space_of(root, claim.key), _SESSION, lease)


def gone(root: bytes, claim: Claim) -> bytes:
    """A key that is there if this claim must not be made any more."""
    return b"%s%s/%s" % (_space_of(root, claim.key), _GONE, claim.id.encode())


def note(root: bytes, key: str, claim_id: str) -> bytes:
    """A key with the reason why this claim's hold was broken."""
    return b"%s%s/%s" % (_space_of(root, key), _NOTE, claim_id.encode())


def claim_id_in(key: bytes) -> str:
    """The id of the first claim that had this name; empty if another client made it."""
    found = _OURS.fullmatch(key.rpartition(b"/")[2])
    return found[1].decode() if found else ""


def place(root: bytes, key: bytes) -> Place | None:
    """Where a key stands; None if that is not in a line of a lock of ours."""
    namespace, *rest = key.removeprefix(root).split(b"/")
    mode = Mode.EXCLUSIVE
    if rest and rest[0] == PERMITS:
        rest, mode = rest[1:], Mode.PERMIT
    if len(rest) != 2 or rest[0] in (_SESSION, _GONE, _NOTE):
        return None
    try:
        return Place(f"{namespace.decode()}:{unquote_to_bytes(rest[0]).decode()}", mode)
    except UnicodeDecodeError:
        return None


def _escaped(name: str) -> bytes:
    return name.encode().replace(b"%", b"%25").replace(b"/", b"%2F")


def _space_of(root: bytes, key: str) -> bytes:
    return space(root, key.partition(":")[0])
