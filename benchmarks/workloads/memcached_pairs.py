"""What an uncontended acquire and release on memcached costs, the server and everybody on one core.

1.00 is a bare socket in a Python loop: an `add` and a delete by CAS id.
"""

from __future__ import annotations

from benchmarks import measuring, pairing, placing
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.memcached_locks import (
    ASYNCIO,
    BARE,
    BLOCKING,
    KINDS,
    PYMEMCACHE,
    SHERLOCK,
    TOOZ,
    UVLOOP,
)
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from tests.servers.memcached import MemcachedServer

PEERS = (PYMEMCACHE, SHERLOCK, TOOZ)
NAMES = (BARE, BLOCKING, ASYNCIO, UVLOOP, *PEERS)
SECONDS = 0.15
OF_BARE = 0.5
"""Of the blocking colour."""
TIMES_A_PEER = 1.0


def measure(plan: Plan) -> Table:
    """The speed of each as a part of the bare limit's in the same run."""
    table = Table(
        "memcached.pairs: uncontended acquire and release",
        ("", "us per pair", "best quarter", "of bare", "us of client CPU", "pairs/s"),
    )
    field, core = Field(KINDS, NAMES), placing.one_core()
    with MemcachedServer() as server:
        server.wait_until_old_enough()
        placing.keep_on(core, server.pid)
        found = pairing.race(
            field, "memcached", server.url, plan=plan, seconds=SECONDS, finer=3, core=core
        )
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    of_bare = pairing.of_limit(wall, BARE)
    for name in field:
        middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
        used = measuring.median(cpu[name])
        table.add(name, middle, best, of_bare[name], used, 1e6 / middle)
    table.tell(field)
    table.aim(f"{BLOCKING}, of the bare socket", of_bare[BLOCKING], OF_BARE)
    for peer in PEERS:
        table.aim_beside(wall, BLOCKING, peer, TIMES_A_PEER)
    table.charts.append(
        Chart(
            "one-caller",
            "Uncontended acquire and release on memcached",
            f"speed as a part of the {BARE}'s (longer is better)",
            of_bare,
            {BLOCKING: OF_BARE},
        )
    )
    return table
