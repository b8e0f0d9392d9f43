"""Several keys in one transaction: all of them are taken, or nothing is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from locknut.backends.etcd import key_swaps, places, recipe
from locknut.backends.etcd.leased_link import TRIES
from locknut.backends.etcd.line_view import CHUNK
from locknut.core.values import Busy, Claim, Granted
from locknut.drivers.etcd.requests import (
    Compare,
    Delete,
    KeyValue,
    Operation,
    Put,
    Range,
    Relation,
    Reply,
    Target,
    after,
    created,
)

if TYPE_CHECKING:
    from locknut.backends.etcd.backend import EtcdBackend
    from locknut.backends.etcd.claim_key import ClaimState


async def attempt_all(backend: EtcdBackend, claims: Sequence[Claim]) -> list[Granted] | Busy | None:
    """Take all that are free. The first question is whether nobody is in any of the lines; if that
    is not so, but they could be shared, the second is whether nobody has come since.
    """
    if len(claims) > CHUNK // 3 or len({claim.key for claim in claims}) < len(claims):
        return None
    seen = 0
    states: list[ClaimState] = []
    for _ in range(TRIES):
        await backend.ready(claims[0])
        states = [backend.shared.state_of(claim) for claim in claims]
        if not all(backend.shared.lives(state) for state in states):
            continue
        stamp = states[0].stamp
        reply = await _take(backend, states, seen)
        if reply.succeeded:
            return await _granted(backend, states, [reply.revision] * len(states))
        lease, *lines = reply.answers
        if not lease:
            backend.shared.lost(states[0].lease)
            continue
        backend.stamped(states[0].lease, stamp, lease[0].mod_revision)
        renamed = [places.is_renamed(*each) for each in zip(states, lines, strict=True)]
        if any(renamed) or not backend.shared.lives(states[0]):
            continue
        own = [
            recipe.find(recipe.read(line), claim.id)
            for line, claim in zip(lines, claims, strict=True)
        ]
        ours = [each for each in own if each is not None]
        if ours or not _could_share(states, lines):
            if len(ours) == len(states):
                return await _granted(backend, states, [each.created for each in ours])
            return await _leave(backend, states, some=bool(ours))
        seen = reply.revision
    if not seen:
        raise backend.unavailable()
    return await _leave(backend, states, some=False)


async def _take(backend: EtcdBackend, states: list[ClaimState], seen: int) -> Reply:
    compares: dict[Compare, None] = {}
    for state in states:
        compares[nobody_since(state.prefix, seen)] = None
        if seen:  # among those that are there may be one of that name
            compares[created(state.key, 0)] = None
        compares.update(dict.fromkeys(places.conditions(state)))
    puts = [places.put(backend, state) for state in states]
    lines = [Range(state.prefix, after(state.prefix)) for state in states]
    lease = Range(states[0].session_key, keys_only=True)
    with _in_doubt_on_error(states):
        return await backend.transact(list(compares), puts, [lease, *lines])


@contextmanager
def _in_doubt_on_error(states: Sequence[ClaimState]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        for state in states:
            state.in_doubt = True
        raise


def nobody_since(prefix: bytes, revision: int) -> Compare:
    """Nobody has come to this line, and nobody in it has changed, since this revision."""
    return Compare(prefix, Target.MODIFIED, Relation.LESS, revision + 1, after(prefix))


def _could_share(states: list[ClaimState], lines: Sequence[Sequence[KeyValue]]) -> bool:
    return all(
        recipe.verdict(recipe.read(line), state.claim.mode, state.claim.permits).mine
        for state, line in zip(states, lines, strict=True)
    )


async def _granted(
    backend: EtcdBackend, states: list[ClaimState], numbers: list[int]
) -> list[Granted] | Busy:
    for state, number in zip(states, numbers, strict=True):
        state.stand(state.key, number)
    answers = [await backend.granted(state) for state in states]
    granted = [each for each in answers if isinstance(each, Granted)]
    return granted if len(granted) == len(states) else await _leave(backend, states, some=True)


async def _leave(backend: EtcdBackend, states: list[ClaimState], *, some: bool) -> Busy:
    """Some may be ours by an earlier sending: an operator removed the others since."""
    if some:
        await release_all(backend, [state.claim for state in states])
    for state in states:
        backend.shared.over(state, key_gone=not some)
    return Busy(0.0, queued=False)


async def release_all(
    backend: EtcdBackend, claims: Sequence[Claim], *, outcome_unknown: bool = False
) -> list[bool]:
    """What is known of is deleted in one round trip, if all of it is there; the rest one by one."""
    shared = backend.shared
    known = [
        state
        for claim in claims
        if (state := shared.states.get(claim.id)) is not None
        and state.created
        and shared.lives(state)
    ]
    gone: dict[str, bool] = {}
    size = CHUNK // 2 if outcome_unknown else CHUNK
    lease = await backend.lease_aside() if outcome_unknown and known else 0
    for start in range(0, len(known), size):
        chunk = known[start : start + size]
        operations: list[Operation] = [Delete(state.key) for state in chunk]
        for state in chunk:
            state.forget_watches()
            if outcome_unknown:
                operations.append(Put(state.tombstone, b"", lease))
        compares = [each for state in chunk for each in key_swaps.still_ours(state)]
        reply = await backend.transact(compares, operations)
        if not reply.succeeded:
            continue  # not all of them are there: each by itself
        for state in chunk:
            shared.over(state, key_gone=not outcome_unknown)
            gone[state.claim.id] = state.granted
    return [
        gone[claim.id]
        if claim.id in gone
        else await backend.release(claim, outcome_unknown=outcome_unknown)
        for claim in claims
    ]
