"""How long a lock on etcd is on its way to another process that sleeps waiting for it.

1.00 is Locknut: no other client for Python wakes its waiters and holds what it says it holds.
"""

from __future__ import annotations

from benchmarks import exchanging
from benchmarks.charts import Chart
from benchmarks.etcd_locks import ASYNCIO, BLOCKING, KINDS
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from tests.servers.etcd import EtcdServer

COLUMNS = (
    "",
    "p50 us",
    "best quarter",
    "times locknut",
    "p99 us",
    "times locknut's p99",
    "hand-overs",
)


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of the blocking colour's."""
    table = Table("etcd.handover: release() begins -> the waiter's acquire() returns", COLUMNS)
    field = Field(KINDS, (BLOCKING, ASYNCIO))
    with EtcdServer(waits_for_disk=True) as server:
        found = exchanging.race(table, field, server.url, BLOCKING, plan)
    table.charts.append(
        Chart(
            "latency",
            "A lock on etcd on its way from one process to another",
            "median of release() to acquire(), times the blocking colour's",
            {name: each.times_bare for name, each in found.items()},
            log=True,
        )
    )
    return table
