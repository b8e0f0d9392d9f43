"""Several keys of one engine in one command, where the engine can: all of them or none.

This is the short way for what is free. What is not free is waited for in the ordinary way, one line
after the other in the global order (`acquiring_all`): waiting for a moment at which everything is
free would starve a caller that wants much, and waiting in one line while having the turn in another
could deadlock with callers that nest.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import pacing, releasing
from locknut.core.acquiring import join
from locknut.core.asking import AcquireState, ask_again
from locknut.core.giving_up import retreat
from locknut.core.holding import Hold
from locknut.core.outcome_events import emit_failed
from locknut.core.runtime_port import NEVER
from locknut.core.values import Busy, Granted
from locknut.errors import BackendUnavailable, LocknutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from locknut.core.client import Client
    from locknut.core.holding import LeaseCore
    from locknut.core.lock_request import LockRequest


async def acquire_at_once(
    client: Client, requests: Sequence[LockRequest], until: float, acquired: list[LeaseCore]
) -> list[Granted] | Busy | None:
    """The grants, with the leases in `acquired`; Busy or None as the engine says: nothing was
    taken.
    """
    if not client.backend.batches or len(requests) == 1:
        return None
    client.ensure_open()
    asked = client.runtime.now()
    caller = client.runtime.caller()
    states = [AcquireState(caller, until, asked) for _ in requests]
    try:
        # We do not overtake the waiters of this process, nor do we wait while we have a turn.
        ours = all(
            _have_turn(client, request, state)
            for request, state in zip(requests, states, strict=True)
        )
        answer = await _ask(client, requests, states) if ours else None
        if not isinstance(answer, list):
            await _give_up(client, requests, states)
            return answer
        for request, state in zip(requests, states, strict=True):
            if state.hold is not None:
                client.lend(state.hold, caller, request.slot, acquired)
                client.begin(state.hold)
        client.ensure_open()  # closed meanwhile: either closing has seen them, or we see that here
    except BaseException as error:
        rest = slice(len(acquired), None)
        await _give_up(client, requests[rest], states[rest])
        if isinstance(error, LocknutError):
            error.placed(client.bare(requests[0].key), client.backend.name)
        for request in requests[rest]:
            emit_failed(client, request, error, client.runtime.now() - asked, contended=False)
        raise
    if client.events.wants("granted"):
        for lease in acquired:
            lease._since = client.runtime.now()
            waited = lease._since - asked
            client.emit("granted", lease, waited=waited, contended=False)
    return answer


def _have_turn(client: Client, request: LockRequest, state: AcquireState) -> bool:
    if request.queues_locally and not (client.breaks and state.caller.leases()):
        join(client, request, state)
    return state.waiter is None


async def _ask(
    client: Client, requests: Sequence[LockRequest], states: list[AcquireState]
) -> list[Granted] | Busy | None:
    for request, state in zip(requests, states, strict=True):
        state.claim = client.claim(request, state.caller)
    claims = [state.claim for state in states if state.claim is not None]
    first, sent, engine = states[0], client.runtime.now(), client.backend
    first.unanswered += 1
    try:
        answer = await client.runtime.finish(engine.attempt_all(claims), first.limit, first)
        first.unanswered -= 1
    except BackendUnavailable as error:
        command = lambda: engine.attempt_all(claims)  # noqa: E731  # as in `releasing.finish_release`
        answer, sent = await ask_again(client, first, command, error)
    if isinstance(answer, list):
        holds = [
            Hold(claim, request.options, granted, sent, state.line)
            for claim, request, granted, state in zip(claims, requests, answer, states, strict=True)
        ]
        if min(hold.valid_until for hold in holds) <= client.runtime.now():
            return None  # too late to be worth anything
        for hold, state in zip(holds, states, strict=True):
            hold.outcome_unknown = first.outcome_unknown
            state.hold = hold
    elif not first.outcome_unknown:
        for state in states:
            state.claim = None  # nothing of it is in the engine, nor ever will be
    return answer


async def _give_up(
    client: Client, requests: Sequence[LockRequest], states: list[AcquireState]
) -> None:
    """As `giving_up.give_up`, for all of them."""
    limit = min((state.limit for state in states), default=NEVER)
    until = min(limit, client.runtime.now() + pacing.GRACE)
    with suppress(BackendUnavailable):
        await client.runtime.finish(_leave(client, requests, states), until)


async def _leave(
    client: Client, requests: Sequence[LockRequest], states: list[AcquireState]
) -> None:
    """Undo all of it. What was sent and not answered may be applied later (L3)."""
    unanswered = max((state.unanswered for state in states), default=0)
    for request, state in zip(requests, states, strict=True):
        state.unanswered = unanswered
        state.unfinished = states[0].unfinished  # one command asked for all
        await retreat(client, request, state)


async def release_at_once(client: Client, leases: Sequence[LeaseCore]) -> None:
    """Release all of them, what goes back to the engine in one round trip; then raise the first
    error there was.
    """
    failed: LocknutError | None = None
    batches = client.backend.batches
    ends: list[LeaseCore] = []
    for lease in leases:
        try:
            rest = releasing.begin_release(client, lease, ends if batches else None)
            if rest is not None:
                await rest
        except LocknutError as error:
            failed = failed or error
    if ends:
        try:
            await client.runtime.finish(releasing.finish_releases(client, ends))
        except LocknutError as error:
            failed = failed or error
    if failed is not None:
        raise failed
