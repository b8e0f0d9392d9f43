"""Who may hold a key beside whom, and who enters next from its line: the rule, pure.

For engines that keep holders and line as one piece of state. First come, first served: nobody is
passed over but by those that can enter together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Protocol

from locknut.core.values import Claim, Mode


class Claimant(Protocol):
    """A holder or a waiter."""

    claim: Claim


class Contest(Protocol):
    """One key: its holders and its line by claim id, both in the order they came."""

    @property
    def holders(self) -> Mapping[str, Claimant]: ...

    @property
    def line(self) -> Mapping[str, Claimant]: ...


def may_enter(key: Contest, claim: Claim) -> bool:
    """Whether this claim fits beside the holders, and nobody before it in line is passed over."""
    if claim.mode is Mode.PERMIT:
        free = claim.permits - len(key.holders)
        return free > 0 and sum(1 for _ in islice(ahead(key, claim), free)) < free
    if claim.mode is Mode.SHARED:
        readers_only = all(each.claim.mode is Mode.SHARED for each in key.holders.values())
        return readers_only and all(each.mode is Mode.SHARED for each in ahead(key, claim))
    if key.holders and claim.owner is not None:
        return all(each.claim.owner == claim.owner for each in key.holders.values())
    return not key.holders and next(ahead(key, claim), None) is None


def entering(key: Contest) -> Iterator[Claim]:
    """Yield the claims that can enter now: one writer, or the readers up to it, or the free
    permits.
    """
    for place, waiting in enumerate(list(key.line.values())):
        claim = waiting.claim
        if claim.mode is Mode.PERMIT:
            enters = len(key.holders) + place < claim.permits
        else:
            enters = (claim.mode is Mode.SHARED or place == 0) and may_enter(key, claim)
        if not enters:
            return
        yield claim


def ahead(key: Contest, claim: Claim) -> Iterator[Claim]:
    """Yield those in line before this claim; for a newcomer, all of them."""
    for claim_id, other in key.line.items():
        if claim_id == claim.id:
            return
        yield other.claim
