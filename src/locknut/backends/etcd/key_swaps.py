"""A key that changes hands or its mode, and keeps its place in line: a put on a key that is there.

Each is a transaction that compares what the key was, so of two that try only one succeeds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from locknut.backends.etcd import places, recipe
from locknut.backends.etcd.leased_link import TRIES
from locknut.backends.etcd.recipe import Contender
from locknut.core.values import Claim, Mode
from locknut.drivers.etcd.requests import (
    Compare,
    Operation,
    Put,
    Range,
    after,
    created,
    modified,
    says,
)
from locknut.errors import LocknutError

if TYPE_CHECKING:
    from locknut.backends.etcd.claim_key import ClaimState
    from locknut.backends.etcd.leased_link import LeasedLink


def still_ours(state: ClaimState) -> list[Compare]:
    """The key is the one that we made or took over. Its lease may be another one, if the answer to
    a detach was lost; nobody else can have it, because nobody was given the text. If it is not
    known to stand there, it is ours if it says what we sent: the name may be another claim's later.
    """
    if not state.created:
        return [says(state.key, state.value)]
    return [created(state.key, state.created)]


async def downgrade(link: LeasedLink, claim: Claim) -> bool:
    """From now on its key says that it is a reader's; whoever waits behind it is told."""
    state = link.shared.holds(claim)
    if state is None:
        return False
    shared = claim._replace(mode=Mode.SHARED)
    put = Put(state.key, link.shown(shared, id=claim.id), state.lease)
    reply = await link.transact(still_ours(state), [put], [Range(state.key, keys_only=True)])
    if reply.succeeded:
        state.claim = shared
    return reply.succeeded


async def detach(link: LeasedLink, claim: Claim, ttl: float) -> bool:
    """Give the key a lease of its own, which nobody keeps alive."""
    state = link.shared.holds(claim)
    if state is None:
        return False
    # Whoever releases it knows nothing of what we have sent, and leaves no tombstone for that.
    bar = [Put(state.tombstone, b"", await link.lease_aside())] if state.in_doubt else []
    lease = (await link.link.grant(math.ceil(ttl))).id
    put = Put(state.key, link.shown(claim, id=claim.id, detached=True), lease)
    # Forgotten before it is sent: if the answer is lost, a release looks for the key by its claim,
    # also when our own lease is over. The detached key stays then.
    link.shared.states.pop(claim.id, None)
    try:
        there = Range(state.key, keys_only=True)
        reply = await link.transact(still_ours(state), [put, *bar], [there])
    except LocknutError:
        await _revoke(link, lease)  # nobody will have the text, so nobody needs the hold
        raise
    if not reply.succeeded:
        await _revoke(link, lease)
    return reply.succeeded


async def attach(link: LeasedLink, detached: Claim, claim: Claim) -> ClaimState | None:
    """Give the detached key our lease and the new claim's id; only the first caller gets it."""
    known = link.shared.holds(claim)
    if known is not None:
        return known
    for _ in range(TRIES):
        await link.ready(claim)
        state = link.shared.state_of(claim)
        if not link.shared.lives(state):
            continue
        reply = await link.transact([], [_everybody(state)])
        line = recipe.read(reply.answers[0])
        mine = recipe.find(line, claim.id)  # there, if the answer to an earlier swap was lost
        old = mine or recipe.find(line, detached.id)
        if old is None or (mine is None and not old.detached):
            break
        if mine is None:
            put = Put(old.key, link.shown(claim, id=claim.id), state.lease)
            stamp = state.stamp
            compares = [modified(old.key, old.modified), *places.conditions(state)]
            swap = await link.transact(compares, [put], places.why_void(state))
            if not swap.succeeded:
                barred, lease = swap.answers
                if barred:
                    break
                if lease:
                    link.stamped(state.lease, stamp, lease[0].mod_revision)
                continue
            await _revoke(link, old.lease)
        if mine is None or mine.lease == state.lease:
            state.stand(old.key, old.created)
            state.granted = True
            return state
    link.shared.states.pop(claim.id, None)
    return None


async def undo_attach(link: LeasedLink, claim: Claim, detached: Claim) -> None:
    """Put the detached id and a lease of its own back, if the attach was done at all. One that is
    still under way is barred first.
    """
    state = link.shared.state_of(claim)
    bar = Put(state.tombstone, b"", await link.lease_aside())
    operations: Sequence[Operation] = [bar, _everybody(state)]
    for _ in range(TRIES):
        reply = await link.transact([], operations)
        operations = [_everybody(state)]
        mine = recipe.find(recipe.read(reply.answers[-1]), claim.id)
        if mine is None:
            break
        ttl = detached.ttl or link.shared.settings.session_ttl
        lease = (await link.link.grant(math.ceil(ttl))).id
        put = Put(mine.key, _as_detached(mine, detached.id), lease)
        compares = [modified(mine.key, mine.modified)]
        swap = await link.transact(compares, [put], [Range(mine.key, keys_only=True)])
        if swap.succeeded:
            break
        await _revoke(link, lease)
    link.shared.states.pop(claim.id, None)


def _as_detached(mine: Contender, claim_id: str) -> bytes:
    facts: dict[str, Any] = {**mine.facts, "id": claim_id, "detached": True}
    return json.dumps(facts, separators=(",", ":")).encode()


def _everybody(state: ClaimState) -> Range:
    return Range(state.prefix, after(state.prefix))


async def _revoke(link: LeasedLink, lease: int) -> None:
    """End a lease that has no key any more; if that fails it ends by itself."""
    with suppress(LocknutError):
        await link.link.revoke(lease)
