"""Closing a client: whatever it holds is given back, in one patience for all of it.

What cannot be given back in that time is left to the keeper, which tries once more behind the
caller; then the ttl, or the end of the process, frees it. A close that is interrupted (Ctrl-C) is
gone through again: what it ended is noted before, and each step may be asked for twice.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from locknut.core import forking, losing, pacing
from locknut.core.outcome_events import emit_released
from locknut.core.releasing import UNCONFIRMED, pass_on_turn_of
from locknut.core.releasing_many import give_back
from locknut.core.values import State
from locknut.errors import BackendUnavailable

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Hold, LeaseCore


CLOSED = "this Locks was closed; connect again to use it"


class Closing:
    """What closing one client has ended, in the order of its holds."""

    __slots__ = ("holds", "leases")

    def __init__(self) -> None:
        self.holds: dict[Hold, None] = {}
        self.leases: dict[LeaseCore, None] = {}
        """Those whose end is still to be told."""


async def close(client: Client) -> None:
    """Release all holds, wake all waiters, and stop the keeper."""
    client = forking.here(client)
    if not client.closed:
        client.closed = CLOSED
        await _begin(client)


async def close_again(client: Client) -> None:
    """Finish a close that was interrupted (Ctrl-C) somewhere on its way. A server that does not
    answer now is not asked again: whoever interrupts has waited for long enough.
    """
    client = forking.here(client)
    if not client.closed or client.closed is CLOSED:
        client.closed = CLOSED
        await _begin(client, insist=False)


async def _begin(client: Client, *, insist: bool = True) -> None:
    if client.nested():  # nothing can be changed here: the keeper does it on its own thread
        client.later(lambda _: end(client, insist=insist))
    else:
        await end(client, insist=insist)


async def end(client: Client, *, insist: bool = True) -> None:
    """Do what closing does, once `closed` lets nobody new in. It may be asked for again."""
    for signal in list(client.waiting):
        signal.notify()
    if client.closing is None:
        client.closing = Closing()
    closing = client.closing
    for hold in list(client.holds.values()):
        _end_hold(client, hold, closing)
    left = list(closing.holds)  # those that the engine has not confirmed yet
    try:
        until = client.runtime.now() + pacing.RELEASE_PATIENCE
        with suppress(BackendUnavailable):
            await client.runtime.finish(_give_back(client, left, until, insist=insist), until)
        await client.runtime.settle(until)  # it may have to be undone, which needs the connection
    finally:
        for hold in closing.holds:
            pass_on_turn_of(client, hold)
        unconfirmed = {hold.claim.id for hold in left}
        for lease in list(closing.leases):
            del closing.leases[lease]
            if lease._outer is None:
                owed = lease._hold.claim.id in unconfirmed
                emit_released(client, lease, f"closed, {UNCONFIRMED}" if owed else "closed")
            else:  # a read inside a write is part of it
                losing.notify_lease(client, lease)
        client.keeper.stop()
        if client.recorder is not None:  # last: it has what was released just now
            await client.all_emitted(client.runtime.now() + pacing.FLUSH)
            await client.recorder.close(client.runtime)
        await client.backend.close()
    closing.holds.clear()  # not if it was interrupted: then they are given back once more


def _end_hold(client: Client, hold: Hold, closing: Closing) -> None:
    """Its leases are over from now on, unless somebody else is ending it."""
    with client.guard:
        if not hold.ending:
            closing.holds[hold] = None  # first: an interrupt finds what has to be given back
            for lease in losing.end_leases(hold, State.RELEASED):
                lease._forget()
                closing.leases[lease] = None
        client.drop(hold)


async def _give_back(client: Client, left: list[Hold], until: float, *, insist: bool) -> None:
    """Until it is answered, or that time. Takes out of `left` what was answered."""
    try:
        await give_back(client.backend, client.runtime, left, until, insist=insist)
    finally:
        for hold in left:
            client.keeper.undo(hold.claim, outcome_unknown=True)
