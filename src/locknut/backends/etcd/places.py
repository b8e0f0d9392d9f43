"""How a claim comes to stand in its line, and who stands there before it: one transaction each.

All of them compare that our lease is there, and that the claim was not given up (the tombstone of
rule 3 in `core/ports.py`): one that arrives late does nothing. Tombstones go away after a while.
Before they do, the key that shows our lease is put again: whatever was sent before that names the
revision of the old one, and so does nothing either, however late it arrives.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from locknut.backends.etcd import recipe
from locknut.backends.etcd.leased_link import TRIES
from locknut.backends.etcd.recipe import Contender
from locknut.core.values import Mode
from locknut.drivers.etcd.requests import (
    Compare,
    KeyValue,
    Put,
    Range,
    Reply,
    after,
    created,
    modified,
    nobody_under,
)

if TYPE_CHECKING:
    from locknut.backends.etcd.claim_key import ClaimState
    from locknut.backends.etcd.leased_link import LeasedLink

FEW: Final = 16
"""So many of a line are listed when we join it. Of a longer one only that is read which concerns
us."""


class Place(NamedTuple):
    """Where a claim stands."""

    created: int
    revision: int
    """As of which this is so."""
    ahead: list[Contender]
    """Who stands before it, in order, as far as that matters."""


class Refused(enum.Enum):
    """Why a claim stands nowhere."""

    LEASE_GONE = "the lease is gone"
    OUTDATED = "something of ours had to be put right first: ask anew"
    BARRED = "it was given up"
    TAKEN = "others are there, and it does not wait"


async def find(link: LeasedLink, state: ClaimState) -> Place | Refused:
    """Stand in line, if the claim does not yet, and see who is before it."""
    if state.created:
        place = await _look(link, state)
        if place is not None:
            return place
        state.created = 0  # an operator removed our key: stand at the end again
    stand = _stand if state.claim.waits else _stand_if_free
    try:
        if state.claim.waits and state.prefix in link.shared.quiet:
            place = await _stand_at_once(link, state)
            if place is not None:
                return place
        found = await stand(link, state)
        for _ in range(TRIES):
            if found is not Refused.OUTDATED:
                break
            found = await stand(link, state)
    except BaseException:
        state.in_doubt = True
        raise
    return found


def conditions(state: ClaimState) -> list[Compare]:
    """What a transaction compares that puts something for this claim."""
    return [created(state.tombstone, 0), modified(state.session_key, state.stamp)]


def put(link: LeasedLink, state: ClaimState) -> Put:
    """What makes its key: the same however often it is sent."""
    claim = state.claim
    if not state.value:
        state.value = link.shown(claim, id=claim.id) if state.shows_id else link.shown(claim)
    return Put(state.key, state.value, state.lease)


@lru_cache(1024)
def _everybody(prefix: bytes) -> Range:
    return Range(prefix, after(prefix), FEW)


async def _stand_at_once(link: LeasedLink, state: ClaimState) -> Place | None:
    """Where nobody was the last time, nobody is read, and nothing is asked in case that it fails:
    whatever is in the way, who stands in line in the other way finds out.
    """
    compares = [nobody_under(state.prefix), *conditions(state)]
    reply = await link.transact(compares, [put(link, state)])
    return Place(reply.revision, reply.revision, []) if reply.succeeded else None


async def _stand(link: LeasedLink, state: ClaimState) -> Place | Refused:
    stamp, compares = state.stamp, [created(state.key, 0), *conditions(state)]
    reply = await link.transact(compares, [put(link, state), _everybody(state.prefix)])
    if reply.succeeded:
        place = await _among(link, state, reply, reply.revision, reply.answers[1])
        if isinstance(place, Refused):
            return place
        link.shared.was_quiet(state.prefix, quiet=not place.ahead)
        return place
    reply = await link.transact([], _why_not(state.key, state.prefix, state.session_key))
    return await _refused(link, state, reply, stamp) or Refused.BARRED


async def _stand_if_free(link: LeasedLink, state: ClaimState) -> Place | Refused:
    """Nothing is left behind if others are there."""
    stamp, compares = state.stamp, [nobody_under(state.prefix), *conditions(state)]
    otherwise = _why_not(state.key, state.prefix, state.session_key)
    reply = await link.transact(compares, [put(link, state)], otherwise)
    if reply.succeeded:
        return Place(reply.revision, reply.revision, [])
    refused = await _refused(link, state, reply, stamp)
    if refused is not None:
        return refused
    claim, line = state.claim, recipe.read(reply.answers[1])
    if not line:  # nothing else is left that may have been in the way
        return Refused.BARRED
    if claim.mode is Mode.EXCLUSIVE or not recipe.verdict(line, claim.mode, claim.permits).mine:
        return Refused.TAKEN
    return await _stand(link, state)


@lru_cache(1024)
def _why_not(key: bytes, prefix: bytes, session_key: bytes) -> list[Range]:
    """What is asked where a transaction did nothing. If it was none of this, it was a tombstone."""
    return [Range(key), _everybody(prefix), Range(session_key, keys_only=True)]


def why_void(state: ClaimState) -> list[Range]:
    """What tells which of the `conditions` was not true."""
    return [Range(state.tombstone, keys_only=True), Range(state.session_key, keys_only=True)]


async def _refused(
    link: LeasedLink, state: ClaimState, reply: Reply, stamp: int
) -> Place | Refused | None:
    """Where it stands already; or that the lease is gone, or its key another one than this stamp
    says; None: something else was in the way.
    """
    own, everybody, lease = reply.answers
    if not lease:
        return Refused.LEASE_GONE
    if not own and lease[0].mod_revision != stamp:
        link.stamped(state.lease, stamp, lease[0].mod_revision)
        return Refused.OUTDATED if link.shared.lives(state) else Refused.LEASE_GONE
    if not own:
        return None
    if is_renamed(state, own):
        return Refused.OUTDATED
    return await _among(link, state, reply, own[0].create_revision, everybody)


def is_renamed(state: ClaimState, found: Sequence[KeyValue]) -> bool:
    """Whether another claim stands there under the name that this one was given: a former one, if
    the cluster came back from a backup, or that of a twin, if our machine was woken up twice from
    one snapshot. Then it gets a name that only it can have.
    """
    taken = any(
        each.key == state.key and recipe.contender(each).id != state.claim.id for each in found
    )
    if taken:
        state.begin(state.lease, state.session_key, state.stamp)
    return taken


async def _among(
    link: LeasedLink, state: ClaimState, reply: Reply, own: int, listed: Sequence[KeyValue]
) -> Place | Refused:
    """Who of those listed is before us; ask for the rest if the line is too long for that."""
    if len(listed) < FEW or max(each.create_revision for each in listed) >= own:
        before = (each for each in listed if each.create_revision < own)
        return Place(own, reply.revision, recipe.read(before))
    state.created = own
    return await _look(link, state) or Refused.LEASE_GONE


async def _look(link: LeasedLink, state: ClaimState) -> Place | Refused | None:
    """Who is before us, as far as that matters; None if our key is not there."""
    claim = state.claim
    most = {Mode.EXCLUSIVE: 1, Mode.PERMIT: claim.permits, Mode.SHARED: 0}[claim.mode]
    ahead = Range(
        state.prefix,
        after(state.prefix),
        limit=most,
        newest_first=True,
        max_create_revision=state.created - 1,
    )
    own = Range(state.key, keys_only=True)
    lease = Range(state.session_key, keys_only=True)
    reply = await link.transact([], [own, ahead, lease])
    (mine, before, lives) = reply.answers
    if not lives:
        return Refused.LEASE_GONE
    if not any(each.create_revision == state.created for each in mine):
        return None
    return Place(state.created, reply.revision, recipe.read(before))
