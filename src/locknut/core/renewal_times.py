"""When a hold is renewed, and how long the answer is waited for: pure arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from locknut.core import pacing
from locknut.core.runtime_port import NEVER

if TYPE_CHECKING:
    from locknut.core.holding import Hold

SHORT = 6.0
"""A hold with a shorter ttl is nearly over when a command of the usual time limit has failed."""
CONFIRM_AFTER = 0.05
"""When a grant for less than was asked is confirmed, and so gets its full ttl: a stall of seconds
must not cost it what was promised for half a minute. Most contended holds are over by then."""


def is_short(hold: Hold) -> bool:
    """Whether the engine granted less than was asked: until its owner confirms it."""
    return hold.ttl is not None and hold.ttl < (hold.claim.ttl or 0.0)


def interval(hold: Hold) -> float:
    """How often it is renewed: at a third of its ttl. Holds without a ttl have the heartbeat.

    A grant for less than was asked is confirmed even where nothing is renewed: just once, for
    then it has its full ttl.
    """
    if hold.ttl is None:
        return NEVER
    if not hold.options.auto_renew and not is_short(hold):
        return NEVER
    return hold.ttl / pacing.RENEWALS_PER_TTL


def first_look(hold: Hold) -> float:
    """Return after how long the keeper looks at it: a constant, so that nothing is left behind."""
    options = hold.options
    first = interval(hold)
    if first == NEVER and hold.ttl is not None:
        first = pacing.validity(0.0, hold.ttl)
    return first if options.max_hold is None else min(first, options.max_hold)


def sooner(hold: Hold, start: float) -> float:
    """After how long a hold is renewed for which the engine vouches for less than its ttl, as a
    ZooKeeper does for its session; NEVER for others.
    """
    if hold.valid_until >= pacing.validity(hold.anchor, hold.ttl):
        return NEVER
    return max(pacing.RETRY_FIRST, (hold.valid_until - start) / pacing.RENEWALS_PER_TTL)


def back_by(holds: list[Hold], now: float, ttl: float) -> float:
    """When a renewal of short holds is given up, to warn of the risk and to ask once more; or if it
    is too late for that, to report the loss in time.
    """
    at_risk = min(NEVER if hold.failures else hold.anchor + ttl * 2 / 3 for hold in holds)
    if now + ttl / 6 <= at_risk < NEVER:
        return at_risk
    return max(now + ttl / 6, min(hold.valid_until for hold in holds))
