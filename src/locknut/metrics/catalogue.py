"""Which metrics there are: their names, labels, units and buckets, for every system they go to.

A label never has more than a few values: `lock` and `election` are the family of a name
(`core/families.py`), never the name, and all the others come from short lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["counter", "histogram", "gauge"]


@dataclass(frozen=True, eq=False, slots=True)
class Metric:
    """One metric, equal to itself alone: every measurement looks something up by it, and the hash
    of all its fields would cost more than the measurement.
    """

    name: str
    """In Prometheus; empty: not there."""
    otel: str
    """In OpenTelemetry."""
    kind: Kind
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    unit: str = "1"


LOCK: Final = ("backend", "lock", "mode")
WAITS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)
HOLDS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0)
MARGINS: Final = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0)
SHARES: Final = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)
COMMANDS: Final = (
    *(0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
)

ACQUIRE: Final = Metric(
    "locknut_acquire_total",
    "locknut.acquisitions",
    "counter",
    "Calls of acquire, by outcome: acquired, busy, timeout, cancelled or error",
    (*LOCK, "outcome"),
)
WAIT: Final = Metric(
    "locknut_wait_seconds",
    "locknut.wait_time",
    "histogram",
    "From the call to the grant, or to giving up",
    LOCK,
    WAITS,
    "s",
)
HOLD: Final = Metric(
    "locknut_hold_seconds",
    "locknut.hold_time",
    "histogram",
    "From the grant to the end of the hold",
    LOCK,
    HOLDS,
    "s",
)
CONTENDED: Final = Metric(
    "locknut_contended_total",
    "locknut.contended",
    "counter",
    "Calls of acquire that did not get the lock at the first attempt",
    LOCK,
)
HELD: Final = Metric("locknut_held", "locknut.held", "gauge", "Holds of this process, now", LOCK)
WAITING: Final = Metric(
    "locknut_waiting", "locknut.pending", "gauge", "Callers of this process that wait, now", LOCK
)
LOST: Final = Metric(
    "locknut_lost_total",
    "locknut.lost",
    "counter",
    "Holds that were lost, by reason: expired, taken, broken, session, max_hold, abandoned, exit",
    (*LOCK, "reason"),
)
TIMEOUTS: Final = Metric(
    "", "locknut.timeouts", "counter", "Calls of acquire that gave up after a wait", LOCK
)
RENEW: Final = Metric(
    "locknut_renew_total",
    "locknut.renewals",
    "counter",
    "Renewals, by outcome: confirmed, unanswered, late or lost",
    (*LOCK, "outcome"),
)
MARGIN: Final = Metric(
    "locknut_lease_margin_seconds",
    "locknut.lease_margin",
    "histogram",
    "How long the hold was still sure to last when its renewal was confirmed",
    LOCK,
    MARGINS,
    "s",
)
MARGIN_RATIO: Final = Metric(
    "locknut_lease_margin_ratio",
    "locknut.lease_margin_ratio",
    "histogram",
    "The same as a share of the ttl: two thirds when all is well, 0 is a loss",
    LOCK,
    SHARES,
)
SKIPPED: Final = Metric(
    "locknut_skipped_total",
    "locknut.skipped",
    "counter",
    "Functions, and runs of a slot, that were not begun: the lock was busy, the slot was taken",
    LOCK,
)
LEADER: Final = Metric(
    "locknut_leader",
    "locknut.leader",
    "gauge",
    "Elections that this process leads, now; 0 where it is a candidate or was one",
    ("backend", "election"),
)
BACKEND: Final = Metric(
    "locknut_backend_seconds",
    "locknut.backend.duration",
    "histogram",
    "Commands to the engine, by op; op=wait may wait there for its turn",
    ("backend", "op"),
    COMMANDS,
    "s",
)
BACKEND_ERRORS: Final = Metric(
    "locknut_backend_errors_total",
    "locknut.backend.errors",
    "counter",
    "Commands to the engine that failed, by op and kind of error",
    ("backend", "op", "kind"),
)

METRICS: Final = (
    ACQUIRE, WAIT, HOLD, CONTENDED, HELD, WAITING, LOST, TIMEOUTS, RENEW, MARGIN, MARGIN_RATIO,
    SKIPPED, LEADER, BACKEND, BACKEND_ERRORS,
)  # fmt: skip

OTHER: Final = "other"
REASONS: Final = frozenset(
    {"expired", "taken", "broken", "session", "max_hold", "abandoned", "exit"}
)
KINDS: Final = frozenset(
    {"BackendUnavailable", "BackendError", "ConfigurationError", "Unsupported", "DeadlockDetected"}
)
"""Whatever is none of these is `other`."""
