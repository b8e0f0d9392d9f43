"""How long a lock in a MariaDB or MySQL database is on its way to the next of eight processes that
wait, and what that costs the server.
"""

from __future__ import annotations

from benchmarks import waiting_lines
from benchmarks.kinds import Field
from benchmarks.mysql_locks import ASYNCIO, BLOCKING, BY_SESSION, KINDS, NAMED
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from tests.servers.databases import Database
from tests.servers.mysql import MariaServer, MySqlServer

WANTED = 5000.0
"""Microseconds."""


def measure(plan: Plan) -> Table:
    """Microseconds, and statements; the join of the one that let go is one of them."""
    title = "mysql.lines: release() begins -> the acquire() of the next of eight returns"
    table = Table(title, waiting_lines.COLUMNS)
    for kind in (MariaServer, MySqlServer):
        field = Field(KINDS, (NAMED, BLOCKING, ASYNCIO, BY_SESSION))
        if NAMED not in field:  # there is no driver
            table.tell(field)
            return table
        with kind() as server, server.database() as database:
            counted = Counted(database)
            found = waiting_lines.race(table, field, database.url, plan, kind.scheme, counted)
        table.aim(f"{kind.scheme}: {BLOCKING}, p50 us", found[BLOCKING], WANTED, at_least=False)
    return table


class Counted:
    """How many statements the server has had from clients."""

    def __init__(self, database: Database):
        self._database = database

    def __call__(self) -> int:
        ((_, number),) = self._database.ask("SHOW GLOBAL STATUS LIKE 'Questions'")
        return int(str(number))
