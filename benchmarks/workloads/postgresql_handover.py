"""How long a lock on PostgreSQL is on its way to another process that sleeps waiting for it.

1.00 is an advisory lock, whose waiters the server wakes itself, and which writes nothing.
"""

from __future__ import annotations

from benchmarks import exchanging
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.postgresql_locks import ADVISORY, ASYNCIO, BLOCKING, BY_SESSION, KINDS
from benchmarks.reporting import Table
from tests.servers.postgresql import PostgresServer

WANTED = 5000.0
"""Microseconds."""
COLUMNS = (
    "",
    "p50 us",
    "best quarter",
    "times advisory",
    "p99 us",
    "times advisory's p99",
    "hand-overs",
)


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of an advisory lock's."""
    table = Table(
        "postgresql.handover: release() begins -> the waiter's acquire() returns", COLUMNS
    )
    field = Field(KINDS, (ADVISORY, BLOCKING, ASYNCIO, BY_SESSION))
    if ADVISORY not in field:  # then there is no driver for us either
        table.tell(field)
        return table
    with PostgresServer(waits_for_disk=True) as server:
        found = exchanging.race(table, field, server.database().url, ADVISORY, plan)
    table.aim(f"{BLOCKING}, p50 us", found[BLOCKING].p50, WANTED, at_least=False)
    table.charts.append(
        Chart(
            "latency",
            "A lock on PostgreSQL on its way from one process to another",
            "median of release() to acquire(), times an advisory lock's (further left is better)",
            {name: each.times_bare for name, each in found.items()},
            log=True,
        )
    )
    return table
