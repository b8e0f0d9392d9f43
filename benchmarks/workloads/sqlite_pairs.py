"""What an uncontended acquire and release on SQLite costs, on the disk of the temporary folder.

1.00 is a plain upsert and a plain update through `sqlite3`, in WAL mode with durable commits.
"""

from __future__ import annotations

import tempfile

from benchmarks import measuring, pairing, placing
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.sqlite_locks import ASYNCIO, BARE, BLOCKING, KINDS

SECONDS = 0.4
OF_BARE = 0.6


def measure(plan: Plan) -> Table:
    """Each one's speed as a part of the bare statements'."""
    table = Table(
        "sqlite.pairs: one uncontended acquire and release",
        ("", "us per pair", "best quarter", "of bare", "us of CPU", "pairs/s"),
    )
    field, core = Field(KINDS, (BARE, BLOCKING, ASYNCIO)), placing.one_core()
    with tempfile.TemporaryDirectory() as folder:
        found = pairing.race(field, "sqlite", folder, plan=plan, seconds=SECONDS, core=core)
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    of_bare = pairing.of_limit(wall, BARE)
    for name in field:
        middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
        table.add(name, middle, best, of_bare[name], measuring.median(cpu[name]), 1e6 / middle)
    table.tell(field)
    title = "Uncontended acquire and release on SQLite"
    about = f"speed as a part of the {BARE}'s (longer is better)"
    table.charts.append(Chart("pairs", title, about, of_bare, {BLOCKING: OF_BARE}))
    table.aim("blocking, of the bare statements", of_bare[BLOCKING], OF_BARE)
    return table
