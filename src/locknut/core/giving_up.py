"""The way back out of an acquire: whatever interrupts it, nothing of it stays behind.

No waiter stays in a line, no claim in the engine, and every turn is passed on. As much as possible
is done in the caller's time, the rest behind its back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import pacing
from locknut.core.releasing import finish_release, pass_on
from locknut.errors import BackendError, BackendUnavailable, LocknutError

if TYPE_CHECKING:
    from locknut.core.asking import AcquireState
    from locknut.core.client import Client
    from locknut.core.lock_request import LockRequest
    from locknut.core.queueing import Line, Waiter
    from locknut.core.values import Claim


async def give_up(client: Client, request: LockRequest, state: AcquireState) -> None:
    """Undo the acquire, in the caller's time as far as there is any, and the rest behind its back.
    Runs to its end even when the caller is cancelled.
    """
    # When it was closed, the keeper ends, and nobody is left who would do the rest.
    patience = pacing.RELEASE_PATIENCE if client.closed else pacing.GRACE
    until = min(state.limit, client.runtime.now() + patience)
    try:
        with suppress(BackendUnavailable):  # the caller gets the error that made it leave
            await client.runtime.finish(retreat(client, request, state), until)
    finally:
        if state.line is not None:  # it goes on behind our back, and the waiters learn it here
            state.line.unheard = True


async def retreat(client: Client, request: LockRequest, state: AcquireState) -> None:
    """Undo just as much as was done. May be asked for again when it was interrupted (Ctrl-C): each
    step is noted after it was done.
    """
    heir: Waiter | None = None
    with client.guard:
        line, waiter = state.line, state.waiter
        if waiter is not None and line is not None:
            line.leave(waiter)
            state.hold = state.hold or waiter.hold
        hold = state.hold
        if hold is not None:
            if not hold.ending:
                state.ended = hold
            client.drop(hold)
            state.line = state.claim = None  # they go with the hold
        elif waiter is not None and not waiter.turn:
            state.line = None
        elif line is not None:
            heir = _leave_claim(client, line, request, state)
        state.waiter = state.hold = None
    if heir is not None:
        heir.signal.notify()
    if state.ended is not None:
        with suppress(LocknutError):  # the caller gets the error that made it leave
            await finish_release(client, state.ended)
        state.ended = None
    try:
        if state.claim is not None:
            await _withdraw(client, state)
            state.claim = None
    finally:
        if state.line is not None:
            pass_on(client, state.line)
            state.line = None


async def _withdraw(client: Client, state: AcquireState) -> None:
    """Not before the end of what was left behind: it may yet be granted, or refused."""
    claim = state.claim
    if claim is None:
        return
    state.withdrawn = True
    if state.unfinished is not None:
        try:
            await state.unfinished
        except BaseException:
            client.keeper.undo(claim, outcome_unknown=True)
            raise
    await withdraw(client, claim, outcome_unknown=state.outcome_unknown)


def _leave_claim(
    client: Client, line: Line, request: LockRequest, state: AcquireState
) -> Waiter | None:
    """Under the guard: to the next in line the turn, and our place in the engine's line, if it
    wants the same; None if the claim must be withdrawn first.
    """
    if state.claim is None and line.left is not None:
        state.inherit(line.left)
    line.left = None
    if state.claim is None or not state.claim.waits or state.unfinished is not None:
        return None  # there is no place to leave, or the claim is still in use
    if state.withdrawn:
        return None  # an earlier retreat goes on behind the caller, and takes it back
    if not line.waiters or next(iter(line.waiters)).options != request.options:
        return None
    if state.caller.leases():
        return None  # it holds something under the identity that the engine knows the claim by
    line.left, state.claim = (state.claim, state.unanswered), None
    heir = client.pass_turn(line)
    state.line = None
    if heir is not None:
        state.caller.pass_identity(heir.caller())
    return heir


async def withdraw(client: Client, claim: Claim, *, outcome_unknown: bool) -> None:
    """Take a claim back that may have been granted, or may stand in the engine's line."""
    try:
        await client.backend.release(claim, outcome_unknown=outcome_unknown)
    except BackendError:
        client.keeper.undo(claim, outcome_unknown=True)
    except BaseException:
        client.keeper.undo(claim, outcome_unknown=True)
        raise
