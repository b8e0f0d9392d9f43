"""What an uncontended acquire and release in a MariaDB or MySQL database costs, durable commits on.

1.00 are two statements by primary key through the same driver. GET_LOCK writes nothing at all, so
it shows what the disk costs.
"""

from __future__ import annotations

from benchmarks import measuring, pairing, placing
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.mysql_locks import ASYNCIO, BARE, BLOCKING, KINDS, NAMED, TOOZ
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from tests.servers.mysql import MariaServer, MySqlServer

NAMES = (BARE, NAMED, BLOCKING, ASYNCIO, TOOZ)
SECONDS = 0.4
WANTED = 0.5


def measure(plan: Plan) -> Table:
    """The speed of each as a part of the bare statements' in the same run."""
    table = Table(
        "mysql.pairs: uncontended acquire and release",
        ("", "server", "us per pair", "best quarter", "of bare", "us of client CPU", "pairs/s"),
    )
    for kind in (MariaServer, MySqlServer):
        with kind(waits_for_disk=True) as server, server.database() as database:
            _race(server, database.url, table, plan)
    return table


def _race(server: MariaServer | MySqlServer, url: str, table: Table, plan: Plan) -> None:
    field, core, scheme = Field(KINDS, NAMES), placing.one_core(), server.scheme
    placing.keep_on(core, server.pid)
    found = pairing.race(field, "mysql", url, plan=plan, seconds=SECONDS, core=core)
    wall, cpu = pairing.column(found, "wall"), pairing.column(found, "cpu")
    of_bare = pairing.of_limit(wall, BARE)
    for name in field:
        middle, best = measuring.median(wall[name]), measuring.best_quarter(wall[name])
        used = measuring.median(cpu[name])
        table.add(name, scheme, middle, best, of_bare[name], used, 1e6 / middle)
    table.tell(field)
    table.aim(f"{scheme}: {BLOCKING}, of bare", of_bare[BLOCKING], WANTED)
    table.charts.append(
        Chart(
            scheme,
            f"Uncontended acquire and release on {scheme}",
            f"speed as a part of the {BARE}' (longer is better)",
            of_bare,
            {BLOCKING: WANTED},
        )
    )
