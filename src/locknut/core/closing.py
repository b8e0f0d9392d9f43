"""Closing a client: whatever it holds is given back, in one patience for all of it.

What cannot be given back in that time is left to the keeper, which tries once more behind the
caller; then the ttl, or the end of the process, frees it.
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


async def close(client: Client) -> None:
    """Release all holds, wake all waiters, and stop the keeper."""
    client = forking.here(client)
    if client.closed:
        return
    nested = client.nested()
    client.closed = "this Locks was closed; connect again to use it"
    if nested:  # nothing can be changed here, so the keeper does the rest on its own thread
        client.later(lambda _: _close(client))
    else:
        await _close(client)


async def _close(client: Client) -> None:
    for signal in list(client.waiting):
        signal.notify()
    ended: list[LeaseCore] = []
    holds = [hold for hold in list(client.holds.values()) if _end(client, hold, ended)]
    left = list(holds)  # those that the engine has not confirmed yet
    try:
        until = client.runtime.now() + pacing.RELEASE_PATIENCE
        with suppress(BackendUnavailable):
            await client.runtime.finish(_give_back(client, left, until), until)
        await client.runtime.settle(until)  # it may have to be undone, which needs the connection
    finally:
        for hold in holds:
            pass_on_turn_of(client, hold)
        unconfirmed = {hold.claim.id for hold in left}
        for lease in ended:
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


def _end(client: Client, hold: Hold, ended: list[LeaseCore]) -> bool:
    """Its leases are over from now on; False if somebody else is ending it."""
    with client.guard:
        ours = not hold.ending
        if ours:
            leases = losing.end_leases(hold, State.RELEASED)
            for lease in leases:
                lease._forget()
            ended += leases
        client.drop(hold)
    return ours


async def _give_back(client: Client, left: list[Hold], until: float) -> None:
    """Until it is answered, or that time. Takes out of `left` what was answered."""
    try:
        await give_back(client.backend, client.runtime, left, until)
    finally:
        for hold in left:
            client.keeper.undo(hold.claim, outcome_unknown=True)
