"""Mine, or watch that one: who of those under a lock's node holds it, by their names alone. Pure.

The order is that of the numbers the server gave, which wrap around after 2^31: so they are compared
by their distance. Nobody ever comes in front of a node but in the place of one that was there (a
writer that goes on as a reader, a parked hold that is taken over, a fellow of the same owner).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from locknut.backends.zookeeper.naming import Node
from locknut.core.values import Mode


class Verdict(NamedTuple):
    """Whether a node holds its key; if not, what to wait for."""

    mine: bool
    behind: str = ""
    """The one node to watch. Empty: any of the holders may go first, so watch them all."""


MINE = Verdict(True)


def verdict(line: Sequence[Node], own: Node, permits: int = 1) -> Verdict:
    """What this node is, among all that stand under the lock's node."""
    ahead = [each for each in line if _distance(each, own) < 0]
    if own.mode is Mode.PERMIT:
        ahead = [each for each in ahead if each.mode is Mode.PERMIT]
        if len(ahead) < permits:
            return MINE
        return Verdict(False, "" if len(ahead) == permits else _last(ahead, own))
    ahead = [each for each in ahead if _excludes(each, own)]
    if not ahead or (own.owner and all(each.owner == own.owner for each in ahead)):
        return MINE
    return Verdict(False, _last(ahead, own))


def in_order(line: Sequence[Node]) -> list[Node]:
    """The whole line, first come first."""
    if not line:
        return []
    return sorted(line, key=lambda each: _distance(each, line[0]))


def find(line: Sequence[Node], claim_id: str) -> Node | None:
    return next((each for each in line if each.id == claim_id), None)


def fellow(line: Sequence[Node], owner: str) -> Node | None:
    """The first claim of this owner: whoever joins it stands where it stands."""
    ours = [each for each in line if each.owner == owner and each.mode is Mode.EXCLUSIVE]
    return in_order(ours)[0] if owner and ours else None


def _excludes(other: Node, own: Node) -> bool:
    """Whether one in front of us keeps us out: a writer everybody, a reader only writers."""
    if other.mode is Mode.PERMIT:
        return False
    return Mode.EXCLUSIVE in {other.mode, own.mode}


def _last(ahead: Sequence[Node], own: Node) -> str:
    return max(ahead, key=lambda each: _distance(each, own)).name


def _distance(one: Node, other: Node) -> int:
    """How far behind the other it stands; negative: before it."""
    return (one.sequence - other.sequence + 2**31) % 2**32 - 2**31
