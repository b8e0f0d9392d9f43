"""How long a lock in a MariaDB or MySQL database is on its way to another process that sleeps.

1.00 is GET_LOCK: the server wakes its waiter by itself, and nothing is written.
"""

from __future__ import annotations

from benchmarks import exchanging
from benchmarks.charts import Chart
from benchmarks.kinds import Field
from benchmarks.mysql_locks import ASYNCIO, BLOCKING, BY_SESSION, KINDS, NAMED
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from tests.servers.mysql import MariaServer, MySqlServer

WANTED = 5000.0
"""Microseconds."""
COLUMNS = (
    "",
    "p50 us",
    "best quarter",
    "times GET_LOCK",
    "p99 us",
    "times GET_LOCK's p99",
    "hand-overs",
)


def measure(plan: Plan) -> Table:
    """Microseconds, and multiples of GET_LOCK's. tooz looks once a second, and is left out."""
    table = Table("mysql.handover: release() begins -> the waiter's acquire() returns", COLUMNS)
    for kind in (MariaServer, MySqlServer):
        field = Field(KINDS, (NAMED, BLOCKING, ASYNCIO, BY_SESSION))
        if NAMED not in field:  # there is no driver
            table.tell(field)
            return table
        with kind() as server, server.database() as database:
            found = exchanging.race(table, field, database.url, NAMED, plan)
        what = f"{kind.scheme}: {BLOCKING}, p50 us"
        table.aim(what, found[BLOCKING].p50, WANTED, at_least=False)
        table.charts.append(
            Chart(
                kind.scheme,
                f"A lock on {kind.scheme} on its way from one process to another",
                "median of release() to acquire(), times GET_LOCK's (further left is better)",
                {name: each.times_bare for name, each in found.items()},
                log=True,
            )
        )
    return table
