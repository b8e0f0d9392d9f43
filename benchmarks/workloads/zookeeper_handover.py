"""How long a lock on ZooKeeper is on its way to another process that sleeps waiting for it.

1.00 is kazoo: there is no bare limit here.
"""

from __future__ import annotations

from benchmarks import exchanging
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.zookeeper_locks import ASYNCIO, BLOCKING, KAZOO, KINDS
from tests.servers.zookeeper import ZooKeeperServer

COLUMNS = (
    "",
    "p50 us",
    "best quarter",
    "times kazoo",
    "p99 us",
    "times kazoo's p99",
    "hand-overs",
)


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of kazoo's."""
    table = Table("zookeeper.handover: release() begins -> the waiter's acquire() returns", COLUMNS)
    field = Field(KINDS, (KAZOO, BLOCKING, ASYNCIO))
    if KAZOO not in field:  # without it there is nobody to be beside, and no driver for us
        table.tell(field)
        return table
    with ZooKeeperServer() as server:
        found = exchanging.race(table, field, server.url, KAZOO, plan)
    for name in (BLOCKING, ASYNCIO):
        table.aim(f"{name}, p50, times kazoo's", found[name].times_bare, 1.0, at_least=False)
    table.charts.append(
        Chart(
            "latency",
            "A lock on ZooKeeper on its way from one process to another",
            "median of release() to acquire(), times kazoo's (further left is better)",
            {name: each.times_bare for name, each in found.items()},
            {BLOCKING: 1.0},
            log=True,
        )
    )
    return table
