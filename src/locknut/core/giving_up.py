"""The way back out of an acquire: whatever interrupts it, nothing of it stays behind.

Nobody is left in a line, no claim in the engine, no turn unpassed. As much as there is time for is
done in the caller's time, the rest behind him.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import pacing
from locknut.core.releasing import end, pass_on, withdraw
from locknut.errors import BackendUnavailable, LocknutError

if TYPE_CHECKING:
    from locknut.core.asking import Turn
    from locknut.core.client import Client, Want
    from locknut.core.queueing import Line, Waiter


async def give_up(client: Client, want: Want, turn: Turn) -> None:
    """Leave as if we had never come, in the caller's time as far as there is any: the rest behind
    him. Runs to its end even when he is cancelled.
    """
    until = min(turn.limit, client.runtime.now() + pacing.GRACE)
    try:
        with suppress(BackendUnavailable):  # the caller is told why it leaves, not this
            await client.runtime.finish(retreat(client, want, turn), until)
    finally:
        if turn.line is not None:  # it goes on behind him, and whoever waits behind it is told so
            turn.line.unheard = True


async def retreat(client: Client, want: Want, turn: Turn) -> None:
    """Undo just as much as was done. May be asked for again when it was interrupted (Ctrl-C): each
    step is noted after it was done.
    """
    heir: Waiter | None = None
    with client.guard:
        line, waiter = turn.line, turn.waiter
        if waiter is not None and line is not None:
            line.leave(waiter)
            turn.hold = turn.hold or waiter.hold
        hold = turn.hold
        if hold is not None:
            if not hold.ending:
                turn.ended = hold
            client.drop(hold)
            turn.line = turn.claim = None  # they go with the hold
        elif waiter is not None and not waiter.turn:
            turn.line = None
        elif line is not None:
            heir = _leave_claim(client, line, want, turn)
        turn.waiter = turn.hold = None
    if heir is not None:
        heir.signal.notify()
    if turn.ended is not None:
        with suppress(LocknutError):  # the caller is told why it leaves, not this
            await end(client, turn.ended)
        turn.ended = None
    try:
        if turn.claim is not None:
            await _withdraw(client, turn)
            turn.claim = None
    finally:
        if turn.line is not None:
            pass_on(client, turn.line)
            turn.line = None


async def _withdraw(client: Client, turn: Turn) -> None:
    """Not before the end of what was left behind: it may yet be granted, or refused."""
    claim = turn.claim
    if claim is None:
        return
    if turn.unfinished is not None:
        try:
            await turn.unfinished
        except BaseException:
            client.keeper.undo(claim, doubtful=True)
            raise
    await withdraw(client, claim, doubtful=turn.doubtful)


def _leave_claim(client: Client, line: Line, want: Want, turn: Turn) -> Waiter | None:
    """Under the guard: to the next in line the turn, and our place in the engine's line, if it
    wants the same; None if the claim must be withdrawn first.
    """
    if turn.claim is None and line.left is not None:
        turn.inherit(line.left)
    line.left = None
    if turn.claim is None or not turn.claim.waits or turn.unfinished is not None:
        return None  # a mere try has no place to leave, nor is a claim two callers' at a time
    if not line.waiters or next(iter(line.waiters)).terms != want.terms:
        return None
    line.left, turn.claim = (turn.claim, turn.unanswered), None
    heir = client.pass_turn(line)
    turn.line = None
    return heir
