"""What an uncontended acquire and release of a file lock costs, fence and holder's record included.

1.00 is a bare lock and unlock of the same kernel lock in a Python loop: it persists nothing, checks
nothing and wakes nobody.
"""

from __future__ import annotations

import tempfile

from benchmarks import measuring, pairing
from benchmarks.charts import Chart
from benchmarks.file_locks import ASYNCIO, BARE, BLOCKING, FAIR, KINDS, PEERS
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table

SECONDS = 0.1
OF_BARE = 0.10


def measure(plan: Plan) -> Table:
    """Each contender's speed as a part of the bare pair's."""
    table = Table(
        "file.pairs: one uncontended acquire and release",
        ("", "us per pair (CPU)", "best quarter", "us (wall)", "of bare (CPU)", "of bare (wall)"),
    )
    field = Field(KINDS, (BARE, BLOCKING, FAIR, ASYNCIO, *PEERS))
    with tempfile.TemporaryDirectory() as folder:
        found = pairing.race(field, "file", folder, plan=plan, seconds=SECONDS)
    cpu, wall = pairing.column(found, "cpu"), pairing.column(found, "wall")
    of_bare, by_wall = pairing.of_limit(cpu, BARE), pairing.of_limit(wall, BARE)
    for name in field:
        middle, best = measuring.median(cpu[name]), measuring.best_quarter(cpu[name])
        table.add(name, middle, best, measuring.median(wall[name]), of_bare[name], by_wall[name])
    table.tell(field)
    table.charts.append(
        Chart(
            "pairs",
            "Uncontended acquire and release of a file lock",
            f"processor time of the {BARE} as a part of each one's (longer is better)",
            of_bare,
            {BLOCKING: OF_BARE},
        )
    )
    table.aim("blocking, of the bare pair", of_bare[BLOCKING], OF_BARE)
    for peer in PEERS:
        table.aim_beside(cpu, BLOCKING, peer, 1.0)
    return table
