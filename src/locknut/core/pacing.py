"""How long things may take and how long to wait before trying again: pure arithmetic."""

from __future__ import annotations

MARGIN_SHARE = 0.01
MARGIN_SECONDS = 0.002
"""What is taken off a ttl for clocks that run at different speeds: 20 times NTP's slew limit."""

RENEWALS_PER_TTL = 3
GRACE = 0.2
"""How long a caller whose time is over, or that is cancelled, waits for the answer to a command."""
TRY_LIMIT = 0.8
"""How long a non-blocking attempt, which has no time at all, waits for its answer."""
MOMENT = 0.1
"""How long a caller that gave up waits to learn who holds the lock."""
OUTAGE_PATIENCE = 5.0
"""How long an unreachable engine is asked again before the caller gets an error."""
RELEASE_PATIENCE = 2.0
FLUSH = 1.0
"""How long closing waits until the history has what happened last."""
COHORT_SECONDS = 0.010
"""How long a process may pass one remote grant around among its own before others get a turn."""
LINE_NET = 1.0
"""How often the first in the line of its own process looks for itself whether it is its turn; those
behind it, which may be thousands, do so five to ten times less often, and not all at once."""
RETRY_FIRST = 0.02
RETRY_MOST = 1.0


def validity(anchor: float, ttl: float | None) -> float:
    """Until when a grant counted from `anchor` may be believed."""
    if ttl is None:
        return float("inf")
    return anchor + ttl - (ttl * MARGIN_SHARE + MARGIN_SECONDS)


def line_net(chance: float, *, first: bool) -> float:
    """After how long a caller in the line of its own process looks for itself."""
    return LINE_NET if first else LINE_NET * (5 + 5 * chance)


def returns_at(asked: float, until: float) -> float:
    """When a caller leaves even a command that is not answered."""
    return until + GRACE if until > asked else asked + TRY_LIMIT


def backoff(tries: int, chance: float) -> float:
    """Before the next try after `tries` failures: doubling, with jitter so that nobody marches."""
    ceiling = min(RETRY_MOST, RETRY_FIRST * 2.0 ** min(tries, 10))
    return ceiling * (0.5 + chance / 2)
