"""What an uncontended acquire and release by session costs on MariaDB and MySQL.

1.00 is a bare GET_LOCK through PyMySQL.
"""

from __future__ import annotations

from benchmarks import session_pairs
from benchmarks.mysql_locks import KINDS, NAMED, NAMED_NUMBERED, PEERS
from benchmarks.plan import Plan
from benchmarks.reporting import Table
from tests.servers.mysql import MariaServer, MySqlServer


def measure(plan: Plan) -> Table:
    """The speed of each as a part of a named lock's."""
    title = "mysql.sessions: uncontended acquire and release in session mode"
    table = Table(title, session_pairs.COLUMNS)
    for server in (MariaServer, MySqlServer):
        session_pairs.race(table, server, KINDS, (NAMED, NAMED_NUMBERED), PEERS, plan)
    return table
