"""How long a lock on Redis is on its way from one process to another that sleeps waiting for it.

1.00 is the bare grant: a release that pushes into the inbox of the first in line, and nothing else.
"""

from __future__ import annotations

from benchmarks import exchanging
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.redis_locks import (
    ASYNCIO,
    BARE_GRANT,
    BLOCKING,
    FIFO,
    KINDS,
    PYTHON_REDIS_LOCK,
    REDIS_ASYNCIO,
    REDIS_PY,
    UVLOOP,
)
from benchmarks.redis_serving import serving
from benchmarks.reporting import Table

PEERS = (PYTHON_REDIS_LOCK, FIFO, REDIS_PY, REDIS_ASYNCIO, "redlock-ng", "pottery", "portalocker")
TIMES_BARE = 1.5


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of the bare grant's."""
    table = Table(
        "redis.handover: release() begins -> the waiter's acquire() returns", exchanging.COLUMNS
    )
    field = Field(KINDS, (BARE_GRANT, BLOCKING, ASYNCIO, UVLOOP, *PEERS))
    with serving(table) as server:
        found = exchanging.race(table, field, server.url, BARE_GRANT, plan)
    title = "A lock on Redis on its way from one process to another"
    table.charts.append(exchanging.latency_chart(title, BARE_GRANT, found, {BLOCKING: TIMES_BARE}))
    times = found[BLOCKING].times_bare
    table.aim(f"{BLOCKING}, p50, times the bare grant", times, TIMES_BARE, at_least=False)
    return table
