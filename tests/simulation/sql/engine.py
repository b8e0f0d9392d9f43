"""The simulated database as a variant of the simulator, and what may be assumed of it."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.checker.history import Kind
from tests.simulation.sql.backend import Either
from tests.simulation.sql.database import Database
from tests.simulation.sql.faults import SqlFaults
from tests.simulation.variant import MEMORY, Variant

EVERYTHING = SqlFaults(
    request_lost=0.03,
    reply_lost=0.03,
    slow=0.1,
    late=0.02,
    ring_lost=0.3,
    engine_restarts=0.1,
    clock_set_back=0.05,
    processes_stop=0.3,
    processes_crash=0.05,
    tasks_cancelled=1.0,
    drift=0.004,
    connections_cut=0.2,
    server_stops=0.1,
    rows_locked=0.5,
    deadlocks=0.05,
    clock_set_forward=0.05,
    lagging_replica=0.1,
    clock_behind=0.3,
    pruned=0.5,
)

ASSUMED = replace(
    MEMORY,
    exclusion_void_after=frozenset({Kind.FORGOT, Kind.STEPPED, Kind.BROKEN}),
    fences_void_after=frozenset({Kind.BEHIND}),
    free_within=7.5,
    idle_within=12.0,
)
"""What the table promises.

Exclusion: a hold excludes others until it ends, except where an operator broke it, the database's
clock was set forward, or a failover went to a server that had not got its grant. A restart, a lost
connection and a clock that is set back void nothing.
Fences: they are unique and in order, whatever is lost, as long as the clock of a promoted server
shows no earlier time than the latest number that the old one gave. A clock that is behind it may
give numbers a second time, and only that.
Progress: the first two in line look every second. If both are dead, the next one looks after six
seconds at the most, and takes those for dead who have been silent for five.
"""

SQL = Variant(node=Database, backend=Either(), everything=EVERYTHING, assumptions=ASSUMED)
