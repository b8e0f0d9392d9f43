"""Several keys in one wait: stand in all the lines at once, and leave them all unless all are ours.

No server can look at several lines in one step. So for a moment another client may find us in front
of it, as it may find any non-blocking attempt. Nobody waits here, so two such callers never wait
for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import Delete

from locknut.core.values import Busy, Claim, Granted

if TYPE_CHECKING:
    from locknut.backends.zookeeper.backend import ZooKeeperBackend
    from locknut.backends.zookeeper.claim_node import ClaimState


async def attempt_all(backend: ZooKeeperBackend, claims: Sequence[Claim]) -> list[Granted] | Busy:
    await backend.ready()
    await _stand_in_lines(backend, [backend.session.state_of(claim) for claim in claims])
    answers = [await backend.attempt(claim, 0.0) for claim in claims]
    granted = [each for each in answers if isinstance(each, Granted)]
    if len(granted) == len(claims):
        return granted
    await release_all(backend, claims)
    return next(each for each in answers if isinstance(each, Busy))


async def _stand_in_lines(backend: ZooKeeperBackend, states: Sequence[ClaimState]) -> None:
    """Do as much as one wait allows; each `attempt` does the rest."""
    fresh = [each for each in states if not (each.node or each.outcome_unknown or each.claim.owner)]
    requests = [request for state in fresh for request in backend.standing(state)]
    for state in fresh:
        state.outcome_unknown = True
    answers: Iterator[Any] = iter(await backend.ask(*requests) if requests else [])
    for state in fresh:
        made, *children = islice(answers, 1 + len(state.folders))
        if isinstance(made, Exception):
            state.outcome_unknown = False
        else:
            state.line = backend.stood(state, made, children)


async def release_all(backend: ZooKeeperBackend, claims: Sequence[Claim]) -> list[bool]:
    session = backend.session
    known: dict[str, ClaimState] = {}
    for claim in claims:
        state = session.states.get(claim.id)
        if state is None or state.outcome_unknown or not state.node or state.epoch != session.epoch:
            continue  # it is released by itself, below
        state.forget_watch()
        known[claim.id] = state
    gone: dict[str, bool] = {}
    if known and not session.closed:
        answers = await backend.ask(*(Delete(state.path, -1) for state in known.values()))
        for claim_id, state, answer in zip(known, known.values(), answers, strict=True):
            session.states.pop(claim_id, None)
            gone[claim_id] = state.granted and not isinstance(answer, NoNodeError)
    return [
        gone[claim.id] if claim.id in gone else await backend.release(claim) for claim in claims
    ]
