"""What an uncontended acquire and release on PostgreSQL costs, with commits that are on the disk.

1.00 is two bare statements through psycopg: each updates one row, and is committed.
"""

from __future__ import annotations

from benchmarks import measuring, pairing, placing
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.postgresql_locks import ADVISORY, ASYNCIO, BARE, BLOCKING, KINDS, TOOZ
from benchmarks.reporting import Table
from tests.servers.postgresql import PostgresServer

NAMES = (BARE, BLOCKING, ASYNCIO, ADVISORY, TOOZ)
SECONDS = 0.4
OF_BARE = 0.5


def measure(plan: Plan) -> Table:
    """The speed of each as a part of the bare statements' in the same run."""
    table = Table(
        "postgresql.pairs: uncontended acquire and release",
        ("", "us per pair", "best quarter", "of bare", "us of client CPU", "pairs/s"),
    )
    field, core = Field(KINDS, NAMES), placing.one_core()
    with PostgresServer(waits_for_disk=True) as server:
        url = server.database().url
        placing.keep_on(core, server.pid)
        found = pairing.race(field, "postgresql", url, plan=plan, seconds=SECONDS, core=core)
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    of_bare = pairing.of_limit(wall, BARE)
    for name in field:
        middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
        table.add(name, middle, best, of_bare[name], measuring.median(cpu[name]), 1e6 / middle)
    table.tell(field)
    for name in (BLOCKING, ASYNCIO):
        table.aim(f"{name}, of {BARE}", of_bare[name], OF_BARE)
    table.charts.append(
        Chart(
            "pairs",
            "Uncontended acquire and release on PostgreSQL",
            f"speed as a part of {BARE} (longer is better)",
            of_bare,
        )
    )
    return table
