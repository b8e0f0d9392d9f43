"""How long a lock on five masters is on its way to another process that sleeps waiting for it.

1.00 is Locknut on one of those servers: a majority may take twice as long.
"""

from __future__ import annotations

from benchmarks import exchanging
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.redlock_locks import ASYNCIO, BLOCKING, KINDS, ONE, ONE_ASYNCIO, PEERS
from benchmarks.reporting import Table
from tests.servers.redlock import RedlockNodes

COLUMNS = (
    "",
    "p50 us",
    "best quarter",
    "times one node",
    "p99 us",
    "times one node's p99",
    "hand-overs",
)
TIMES_ONE = 2.0


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of one node's."""
    table = Table("redlock.handover: release() begins -> the waiter's acquire() returns", COLUMNS)
    field = Field(KINDS, (ONE, BLOCKING, ASYNCIO, ONE_ASYNCIO, *PEERS))
    with RedlockNodes() as nodes:
        table.versions["redis-server"] = nodes.nodes[0].info()["redis_version"]
        found = exchanging.race(table, field, nodes.url, ONE, plan)
    aio = found[ASYNCIO].p50 / found[ONE_ASYNCIO].p50
    for name, times in ((BLOCKING, found[BLOCKING].times_bare), (ASYNCIO, aio)):
        table.aim(f"{name}, p50, times one node", times, TIMES_ONE, at_least=False)
    title = "A lock on five Redis masters on its way from one process to another"
    table.charts.append(exchanging.latency_chart(title, ONE, found, {BLOCKING: TIMES_ONE}))
    return table
