"""The names of nodes: the node of a lock, and the nodes of its holders and waiters under it.

The names of the latter are Curator's (or kazoo's), with the claim's id where Curator puts the id of
a protected node: a create whose reply was lost is found again by it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from locknut.core.values import Claim, Mode

LOCKS: Final = "locks"
"""Under a semaphore's node, as in Curator's InterProcessSemaphoreV2, waiters stand here ..."""
LEASES: Final = "leases"
"""... and holders stand here."""
WAITING: Final = "lock-"
"""What stands before the number of one who waits for a permit."""

_PRINTABLE: Final = "!\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~ "
"""What a node's name may hold as it is, beside letters and digits."""
_MODES: Final = {
    "lock-": Mode.EXCLUSIVE,
    "__WRIT__": Mode.EXCLUSIVE,
    "__lock__": Mode.EXCLUSIVE,
    "__READ__": Mode.SHARED,
    "__rlock__": Mode.SHARED,
    "lease-": Mode.PERMIT,
}
_NAME: Final = re.compile(
    r"(?:_c_(?P<dashed>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-|(?P<plain>[0-9a-f]{32}))?"
    r"(?P<owner>o[0-9a-f]{16}-)?(?P<detached>p-)?.*?"
    rf"(?P<kind>{'|'.join(_MODES)})(?P<sequence>-?\d{{9,10}})"
)


class Node(NamedTuple):
    """Somebody who holds a key or waits for it, as its name tells."""

    name: str
    mode: Mode
    sequence: int
    kind: str
    id: str = ""
    """The claim's; empty where another client's names carry none."""
    owner: str = ""
    """A mark of the explicit owner, the same for all of its claims."""
    detached: bool = False

    @property
    def number(self) -> str:
        """The sequence as the server wrote it."""
        return self.name[self.name.rindex(self.kind) + len(self.kind) :]


@lru_cache(4096)  # a long line is listed again and again
def node(name: str) -> Node | None:
    """Return what a child's name says; None if it is not a contender."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    claim_id = (found["dashed"] or found["plain"] or "").replace("-", "")
    kind = found["kind"]
    owner = found["owner"] or ""
    detached = found["detached"] is not None
    return Node(name, _MODES[kind], int(found["sequence"]), kind, claim_id, owner, detached)


def nodes(children: Iterable[str]) -> list[Node]:
    return [each for name in children if (each := node(name)) is not None]


def listed(answers: Sequence[Any]) -> list[Node]:
    """The same of several lists; what is not there has nobody under it."""
    return nodes(name for names in answers if isinstance(names, list) for name in names)


def kind_of(claim: Claim, layout: str) -> str:
    """What stands before the number of a holder: by it other clients know what is claimed."""
    if claim.mode is Mode.PERMIT:
        return "lease-"
    if layout == "kazoo":
        return "__rlock__" if claim.mode is Mode.SHARED else "__lock__"
    if claim.mode is Mode.SHARED:
        return "__READ__"
    return "__WRIT__" if claim.writer else "lock-"


def prefix(claim_id: str, owner: str, kind: str, *, detached: bool = False) -> str:
    """A node's name without its number."""
    mark = ("p-" if detached else "") + kind
    if kind in {"__lock__", "__rlock__"}:
        return f"{claim_id}{owner}{mark}"
    parts = (claim_id[:8], claim_id[8:12], claim_id[12:16], claim_id[16:20], claim_id[20:])
    return f"_c_{'-'.join(parts)}-{owner}{mark}"


def owner_mark(owner: str | None) -> str:
    if owner is None:
        return ""
    return f"o{hashlib.sha256(owner.encode()).hexdigest()[:16]}-"


def segment(text: str) -> str:
    """Any text as one part of a path: the server refuses much, Java's surrogates included."""
    quoted = quote(text, safe=_PRINTABLE)
    return quoted.replace(".", "%2E") if quoted in {".", ".."} else quoted


@lru_cache(4096)
def folder(root: str, key: str) -> str:
    """The node of a lock: root, namespace, name."""
    namespace, _, name = key.partition(":")
    return f"{root}/{space(root, namespace)}/{segment(name)}"


def space(root: str, namespace: str) -> str:
    """The node of a namespace; one of that name at the top is the server's own."""
    first = segment(namespace)
    return "%7Aookeeper" if first == "zookeeper" and not root else first


def key_of(namespace: str, name: str) -> str:
    return f"{unquote(namespace)}:{unquote(name)}"


def folders_of(root: str, claim: Claim) -> tuple[str, ...]:
    """Where a claim's node stands: while it waits in the first, when it holds in the last."""
    base = folder(root, claim.key)
    return (f"{base}/{LOCKS}", f"{base}/{LEASES}") if claim.mode is Mode.PERMIT else (base,)
