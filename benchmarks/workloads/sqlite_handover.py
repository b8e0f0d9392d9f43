"""How long a lock in an SQLite file is on its way to the next of several processes that wait."""

from __future__ import annotations

import tempfile

from benchmarks import waiting_lines
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from benchmarks.sqlite_locks import ASYNCIO, BLOCKING, KINDS

WANTED = 5000.0
"""Microseconds."""


def measure(plan: Plan) -> Table:
    """On the disk of the temporary folder: each hand-over is three durable commits."""
    title = "sqlite.handover: release() begins -> the next one's acquire() returns"
    table = Table(title, waiting_lines.COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        found = waiting_lines.race(table, Field(KINDS, (BLOCKING, ASYNCIO)), folder, plan, "sqlite")
    for name, middle in found.items():
        table.aim(f"{name}, p50 us", middle, WANTED, at_least=False)
    return table
