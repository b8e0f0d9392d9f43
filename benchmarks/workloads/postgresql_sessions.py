"""What an uncontended acquire and release by session costs on PostgreSQL.

1.00 is a bare advisory lock through psycopg.
"""

from __future__ import annotations

from benchmarks import session_pairs
from benchmarks.plan import Plan
from benchmarks.postgresql_locks import ADVISORY, ADVISORY_NUMBERED, KINDS, PEERS
from benchmarks.reporting import Table
from tests.servers.postgresql import PostgresServer


def measure(plan: Plan) -> Table:
    """The speed of each as a part of an advisory lock's."""
    title = "postgresql.sessions: uncontended acquire and release in session mode"
    table = Table(title, session_pairs.COLUMNS)
    session_pairs.race(table, PostgresServer, KINDS, (ADVISORY, ADVISORY_NUMBERED), PEERS, plan)
    return table
