"""How long a file lock is on its way from one process to another that sleeps waiting for it."""

from __future__ import annotations

import tempfile

from benchmarks import exchanging
from benchmarks.file_locks import ASYNCIO, BARE, BLOCKING, DOORBELL, FAIR, KINDS, PEERS
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table

TIMES_BARE, TIMES_BARE_ASYNCIO, P99_US = 5.0, 7.0, 300.0
NAMES = (BARE, DOORBELL, BLOCKING, FAIR, ASYNCIO, *PEERS, "filelock, asyncio")


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of the bare kernel lock's."""
    table = Table(
        "file.handover: release() begins -> the waiter's acquire() returns", exchanging.COLUMNS
    )
    with tempfile.TemporaryDirectory() as folder:
        found = exchanging.race(table, Field(KINDS, NAMES), folder, BARE, plan)
    title = "A file lock on its way from one process to another"
    targets = {BLOCKING: TIMES_BARE, ASYNCIO: TIMES_BARE_ASYNCIO}
    table.charts.append(exchanging.latency_chart(title, BARE, found, targets))
    blocking, awaited = found[BLOCKING], found[ASYNCIO]
    table.aim("blocking, times bare", blocking.times_bare, TIMES_BARE, at_least=False)
    table.aim("asyncio, times bare", awaited.times_bare, TIMES_BARE_ASYNCIO, at_least=False)
    table.aim("blocking, p99 us", blocking.p99, P99_US, at_least=False)
    return table
