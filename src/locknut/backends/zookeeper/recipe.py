"""Who holds a lock and which node to watch, decided by the names under the lock's node. Pure.

A semaphore is Curator's: a line of its own, of which only the first may enter, and the leases.

The order is that of the numbers the server gave, which wrap around after 2^31: so they are compared
by their distance. Nobody ever comes in front of a node but in the place of one that was there (a
writer that goes on as a reader, a detached hold that is taken over, a fellow of the same owner).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from locknut.backends.zookeeper.node_names import Node
from locknut.core.values import Claim, Mode


class Verdict(NamedTuple):
    """Whether a node holds its key; if not, what to do or to wait for."""

    mine: bool
    behind: str = ""
    """The one node to watch. Empty: any of the leases may go first, so watch them all."""
    enters: bool = False
    """Whether this node, and no other, may take a lease now."""


MINE = Verdict(True)
ENTERS = Verdict(False, enters=True)


def judge(claim: Claim, line: Sequence[Node], own: Node) -> Verdict:
    """Decide about the node of a claim, among all that stand where it may stand."""
    return turn(line, own, claim.permits) if claim.mode is Mode.PERMIT else verdict(line, own)


def verdict(line: Sequence[Node], own: Node) -> Verdict:
    """Decide about this node, among all that stand under the lock's node."""
    ahead = [each for each in line if _distance(each, own) < 0 and _excludes(each, own)]
    if not ahead or (own.owner and all(each.owner == own.owner for each in ahead)):
        return MINE
    return Verdict(False, _last(ahead, own))


def turn(line: Sequence[Node], own: Node, permits: int) -> Verdict:
    """The same for a semaphore: `line` is who waits and who has a lease. Only the first of those
    who wait ever makes a lease, so what is free for it stays free.
    """
    if own.mode is Mode.PERMIT:
        return MINE
    ahead = [each for each in line if each.mode is not Mode.PERMIT and _distance(each, own) < 0]
    if ahead:
        return Verdict(False, _last(ahead, own))
    return ENTERS if room(line, permits) else Verdict(False)


def room(line: Sequence[Node], permits: int) -> bool:
    """Return whether there is a lease left."""
    return sum(each.mode is Mode.PERMIT for each in line) < permits


def holding(line: Sequence[Node]) -> Iterator[bool]:
    """Whether each holds, of a whole line in order: as `verdict` says, in one walk."""
    writers: set[str] = set()
    everybody: set[str] = set()
    for _, abreast in groupby(line, key=lambda each: each.sequence):
        side_by_side = list(abreast)
        for own in side_by_side:
            before = everybody if own.mode is Mode.EXCLUSIVE else writers
            yield not before or (own.owner != "" and before == {own.owner})
        everybody |= {each.owner for each in side_by_side}
        writers |= {each.owner for each in side_by_side if each.mode is Mode.EXCLUSIVE}


def in_order(line: Sequence[Node]) -> list[Node]:
    """Return the whole line, first come first."""
    if not line:
        return []
    return sorted(line, key=lambda each: _distance(each, line[0]))


def find(line: Sequence[Node], claim_id: str) -> Node | None:
    return next((each for each in line if each.id == claim_id), None)


def fellow(line: Sequence[Node], owner: str) -> Node | None:
    """Return the first claim of this owner: a claim that joins it stands where it stands."""
    ours = [each for each in line if each.owner == owner and each.mode is Mode.EXCLUSIVE]
    return in_order(ours)[0] if owner and ours else None


def _excludes(other: Node, own: Node) -> bool:
    """Return whether a node in front keeps us out: a writer keeps all out, a reader only
    writers.
    """
    return Mode.EXCLUSIVE in {other.mode, own.mode}


def _last(ahead: Sequence[Node], own: Node) -> str:
    return max(ahead, key=lambda each: _distance(each, own)).name


def _distance(one: Node, other: Node) -> int:
    """Return how far behind the other it stands; negative if it stands before it."""
    return (one.sequence - other.sequence + 2**31) % 2**32 - 2**31
