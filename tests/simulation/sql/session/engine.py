"""Simulated sessions as a variant of the simulator, and what may be assumed of them."""

from __future__ import annotations

from dataclasses import asdict, replace

from tests.simulation.checker.history import Kind
from tests.simulation.sql import engine
from tests.simulation.sql.session.backend import Mixed, SimKeeper, SimSession
from tests.simulation.sql.session.faults import SessionFaults
from tests.simulation.sql.session.server import SessionDatabase
from tests.simulation.variant import Variant

EVERYTHING = replace(
    SessionFaults(**asdict(engine.EVERYTHING)),
    sessions_killed=0.5,
    silent_reconnects=0.2,
    half_open=0.5,
    heartbeats_stop=0.1,
)

ASSUMED = replace(
    engine.ASSUMED,
    holds_void_after=frozenset({Kind.FORGOT, Kind.STEPPED, Kind.BROKEN, Kind.CUT}),
    free_within=9.0,
    idle_within=14.0,
)
"""What session mode promises: all that lease mode does, and besides:

Exclusion: a session that ends, a server that starts anew, a connection that is exchanged in silence
void nothing. Whoever holds by a session may be told of a loss when that session has ended.
Progress: one that waits looks at the row every second where nobody holds it, and ends a session
after five that has the lock and does not come.
"""

SESSION = Variant(
    node=SessionDatabase,
    backend=SimSession,
    keeper=SimKeeper,
    everything=EVERYTHING,
    assumptions=ASSUMED,
)
MIXED = replace(SESSION, backend=Mixed(SimSession), keeper=Mixed(SimKeeper))
"""Beside clients in lease mode, on the same table."""
