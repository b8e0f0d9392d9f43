"""The simulated memcached as a variant of the simulator, and what may be assumed of it."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.checker.history import Kind
from tests.simulation.memcached.backend import SimMemcached
from tests.simulation.memcached.faults import CacheFaults
from tests.simulation.memcached.server import Memcached
from tests.simulation.variant import MEMORY, Variant

EVERYTHING = CacheFaults(
    request_lost=0.03,
    reply_lost=0.03,
    slow=0.1,
    late=0.02,
    engine_restarts=0.1,
    clock_set_back=0.05,
    processes_stop=0.3,
    processes_crash=0.05,
    tasks_cancelled=1.0,
    drift=0.004,
    flushed=0.05,
    evicted=0.2,
    connections_cut=0.2,
    server_stops=0.1,
    clock_stalls=0.1,
)

ASSUMED = replace(
    MEMORY,
    old_holds_come_back=False,
    fences_void_after=frozenset({Kind.BEHIND}),
    fifo=False,
)
"""What a cache promises.

Exclusion: a hold excludes others until it ends, except where an operator broke it, or the cache has
forgotten it: after a restart, a flush, an eviction.
Fences: they are unique and in order, unless the machine's clock was set back before a restart.
Progress: waiters ask again; a server that was just started grants after two seconds.
"""

MEMCACHED = Variant(
    node=Memcached, backend=SimMemcached, everything=EVERYTHING, assumptions=ASSUMED
)


class Patient(SimMemcached):
    """With the longest ttl as `restart_delay`: of a hold with a ttl of 3 s and half as much."""

    delay = 4.5


PATIENT = replace(
    MEMCACHED,
    backend=Patient,
    assumptions=replace(
        ASSUMED,
        exclusion_void_after=frozenset({Kind.BROKEN}),
        holds_void_after=frozenset({Kind.FORGOT, Kind.BROKEN}),
        free_within=8.0,
    ),
)
"""Where nothing but restarts makes it forget, nobody enters beside a holder of before."""
