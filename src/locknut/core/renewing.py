"""Renewing holds: what is asked, and what an answer, or a notice, means for a hold.

The keeper renews what is due, and a caller by hand; both ways end in `renewed`, which plans the
next look at the hold. What the engine says without being asked ends in `noticed`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import losing, pacing
from locknut.core.durations import spell
from locknut.core.runtime_port import NEVER
from locknut.core.schedule import interval
from locknut.core.values import Broken, HeldUntil, Notice, Renewal, RenewalReport, Renewed
from locknut.errors import BackendError, BackendUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from locknut.core.client import Client
    from locknut.core.holding import Hold, LeaseCore
    from locknut.core.ports import Backend, Runtime

SHORT = 6.0
"""A hold with a shorter ttl is nearly over when a command of the usual time limit has failed."""


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


async def last_for(client: Client, lease: LeaseCore, ttl: float) -> None:
    """Let the hold last for `ttl` from now on, longer or shorter than before; raise unless the
    engine confirms it. For holds that are not renewed by themselves, on engines that detach.
    """
    if client.nested():
        client.refuse_nested()
    lease.check()
    hold = lease._hold
    sent = client.runtime.now()
    claim, ends = hold.claim._replace(ttl=ttl), pacing.validity(sent, ttl)
    if ends >= hold.valid_until:
        (answer,) = await client.runtime.finish(client.backend.renew([claim]))
    else:
        # A renewal never shortens. If the answer is lost this may still be applied, however late,
        # so from now on nobody believes in a later end, and its loss is told then.
        with client.guard:
            before, hold.hold_until = hold.hold_until, min(hold.hold_until, ends)
            if not hold.ending:
                client.schedule.plan(hold, sent)
        held = await client.runtime.finish(client.backend.detach(claim, ttl))
        hold.hold_until = before
        answer = Renewal.HELD if held else Renewal.LOST
    if answer is Renewal.HELD:
        hold.claim = claim
    renewed(client, hold, answer, sent)
    lease.check()
    if answer is Renewal.UNKNOWN:
        message = "the new time was not confirmed; the hold lasts as long as it did before"
        raise BackendUnavailable(message, key=lease.name, backend=lease.backend)


async def renew_all(
    client: Client, runtime: Runtime, holds: Sequence[Hold], backend: Backend
) -> None:
    """In one round trip; but those that a command could outlast go by themselves. `backend` and
    `runtime` are the keeper's.
    """
    groups: dict[float, list[Hold]] = {}
    for hold in holds:
        ttl = NEVER if hold.ttl is None or hold.ttl >= SHORT else hold.ttl
        groups.setdefault(ttl, []).append(hold)
    for ttl, group in groups.items():
        sent = runtime.now()
        until = NEVER if ttl == NEVER else _back_by(group, sent, ttl)
        try:
            command = backend.renew([hold.claim for hold in group])
            answers: Sequence[Renewed] = await runtime.finish(command, until)
        except Exception:  # noqa: BLE001  # whatever it was, there was no answer: the keeper lives on
            answers = [Renewal.UNKNOWN] * len(group)
        for hold, answer in zip(group, answers, strict=True):
            lost = answer is Renewal.LOST or isinstance(answer, Broken)
            if lost or hold.ttl is None or interval(hold) != NEVER:
                renewed(client, hold, answer, sent)  # or else it was just looked at


def _back_by(holds: list[Hold], now: float, ttl: float) -> float:
    """When a renewal of short holds is given up, to warn of the risk and to ask once more; or if it
    is too late for that, to report the loss in time.
    """
    at_risk = min(NEVER if hold.failures else hold.anchor + ttl * 2 / 3 for hold in holds)
    if now + ttl / 6 <= at_risk < NEVER:
        return at_risk
    return max(now + ttl / 6, min(hold.valid_until for hold in holds))


def renewed(client: Client, hold: Hold, answer: Renewed, sent: float) -> None:
    """Take a renewal's answer in, unless the hold ended meanwhile or its time ran out (S18)."""
    now = client.runtime.now()
    if client.events.measured:
        client.events.renewal(_report(client, hold, answer, now))
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
            client.schedule.plan(hold, now)
    if first_failure:
        left = hold.ends_at() - now
        client.emit("at_risk", hold, aside=True, reason=f"not renewed, {spell(left)} left")


def noticed(client: Client, claim_id: str | None, what: Notice, holds: Sequence[Hold] = ()) -> None:
    """Take in a notice of the engine: what became of one hold, or of all that there were then."""
    with client.guard:
        one = client.holds.get(claim_id) if claim_id is not None else None
    for hold in [one] if one is not None else holds:
        if isinstance(what, Broken):
            losing.lose(client, hold, losing.broken(what.note))
        elif what is Renewal.LOST:
            losing.lose(client, hold, "broken" if claim_id is not None else "session")
        else:
            with client.guard:
                if not hold.ending:
                    if what is Renewal.UNKNOWN:
                        hold.failures = max(1, hold.failures)
                    at_once = what is Renewal.HELD
                    client.schedule.plan(hold, client.runtime.now(), at_once=at_once)


def _report(client: Client, hold: Hold, answer: Renewed, now: float) -> RenewalReport:
    """What this renewal came to, before anything is made of it."""
    left: float | None = hold.ends_at() - now
    if answer is Renewal.LOST or isinstance(answer, Broken):
        outcome = "lost"
    elif answer is Renewal.UNKNOWN:
        outcome = "unanswered"
    else:
        outcome = "late" if now >= hold.ends_at() else "confirmed"
    if outcome != "confirmed" or left == NEVER:
        left = None
    name = client.bare(hold.claim.key)
    return RenewalReport(name, client.backend.name, hold.claim.mode, outcome, left, hold.ttl)
