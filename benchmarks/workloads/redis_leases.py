"""What it costs to hold 1,000 and 10,000 leases on Redis that are renewed: threads, CPU, memory.

The limit is one thread that sends the renewals of all of them in one write, three times per expiry.
"""

from __future__ import annotations

from functools import partial

from benchmarks import measuring
from benchmarks.charts import Chart
from benchmarks.holding import TTL
from benchmarks.kinds import Field
from benchmarks.plan import Plan
from benchmarks.redis_locks import ASYNCIO, BARE_BATCH, BLOCKING, FIFO, KINDS, PYTHON_REDIS_LOCK
from benchmarks.redis_serving import serving
from benchmarks.reporting import Table
from benchmarks.slices import Contender, Sample

MANY, MOST = 1_000, 10_000
HOLD_MS = 20_000
CPU_SECONDS, SHARE = 0.15, 0.05
OVER = 20.0
"""The processor time is told for so many seconds, however long it was measured."""


def measure(plan: Plan) -> Table:
    """Who keeps them all, and at what price."""
    hold_ms = plan.count(HOLD_MS, 7000 if plan.complete else 200)  # longer than the expiry
    table = Table(
        f"redis.leases: held for {hold_ms / 1000:.0f} s with an expiry of {TTL:.0f} s",
        ("", "leases", "us to take one", "threads", f"CPU s in {OVER:.0f} s", "KiB each", "kept"),
    )
    _race((BARE_BATCH, BLOCKING, ASYNCIO, PYTHON_REDIS_LOCK, FIFO), MANY, hold_ms, table, plan)
    _race((BARE_BATCH, BLOCKING, ASYNCIO), MOST, hold_ms, table, plan)
    return table


def _race(names: tuple[str, ...], leases: int, hold_ms: int, table: Table, plan: Plan) -> None:
    field = Field(KINDS, names)
    wanted = CPU_SECONDS if leases == MANY else SHARE * OVER
    leases = leases if plan.complete else leases // 50
    with serving(table) as server:
        found = field.race(partial(_held, server.url, leases, hold_ms), 1, plan.seed)
    used = {}
    for name in field:
        sample = {
            key: measuring.median([each[key] for each in found[name]]) for key in found[name][0]
        }
        cpu = used[name] = sample["share"] * OVER
        kept = int(sample["kept"])
        table.add(
            name,
            leases,
            sample["take"] * 1e6,
            int(sample["threads"]),
            cpu,
            sample["memory"] / 1024,
            kept,
        )
        if name in {BLOCKING, ASYNCIO}:
            who = f"{name}, {leases:,} leases"
            table.aim(f"{who}: CPU s in {OVER:.0f} s", cpu, wanted, at_least=False)
            table.aim(f"{who}: threads", sample["threads"], 1, at_least=False)
            table.aim(f"{who}: kept", kept, leases)
    table.tell(field)
    table.charts.append(
        Chart(
            f"{leases}",
            f"{leases:,} leases on Redis, held and renewed",
            f"processor time of the client in {OVER:.0f} s (further left is better)",
            used,
            dict.fromkeys((BLOCKING, ASYNCIO), wanted),
            log=True,
        )
    )


def _held(url: str, leases: int, hold_ms: int, name: str) -> Sample:
    options = {"engine": "redis", "name": name, "place": url, "leases": leases}
    with Contender("benchmarks.holding:slices", options) as contender:
        return contender.run(hold_ms)
