"""What an answer to a renewal means for the hold, and renewing by hand.

The keeper renews by itself (`keeper`); both ways end in `renewed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import losing
from locknut.core.durations import spell
from locknut.core.values import Broken, HeldUntil, Renewal, Renewed
from locknut.errors import BackendError

if TYPE_CHECKING:
    from locknut.core.client import Client
    from locknut.core.holding import Hold, LeaseCore


async def renew(client: Client, lease: LeaseCore) -> None:
    """Renew now, and raise unless the engine confirms it."""
    if client.nested():
        client.refuse_nested()
    lease.check()
    hold = lease._hold
    sent = client.runtime.now()
    (answer,) = await client.runtime.finish(client.backend.renew([hold.claim]))
    renewed(client, hold, answer, sent)
    lease.check()
    if answer is Renewal.UNKNOWN:
        message = "the renewal was not confirmed; the hold lasts as long as it did before"
        raise BackendError(message, key=lease.name, backend=lease.backend)


def renewed(client: Client, hold: Hold, answer: Renewed, sent: float) -> None:
    """Take a renewal's answer in, unless the hold ended meanwhile or its time ran out (S18)."""
    now = client.runtime.now()
    if answer is Renewal.LOST or isinstance(answer, Broken):
        losing.lose(client, hold, "taken" if answer is Renewal.LOST else losing.broken(answer.note))
        return
    if now >= hold.valid_until or now >= hold.hold_until:
        losing.expire_if_due(client, hold)
        return
    with client.guard:
        if hold.ending:
            return
        first_failure = answer is Renewal.UNKNOWN and hold.failures == 0
        if answer is Renewal.HELD:
            hold.confirmed(sent)
        elif isinstance(answer, HeldUntil):
            hold.confirmed(sent, answer.until)
        else:
            hold.failures += 1
        if hold.ttl is not None:
            client.keeper.reschedule(hold, now)
    if first_failure:
        left = hold.ends_at() - now
        client.emit("at_risk", hold, aside=True, reason=f"not renewed, {spell(left)} left")
