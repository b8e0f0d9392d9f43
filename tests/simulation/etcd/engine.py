"""The simulated cluster as a variant of the simulator, and what may be assumed of it."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.checker.history import Kind
from tests.simulation.etcd.backend import SimEtcd
from tests.simulation.etcd.cluster import Cluster
from tests.simulation.etcd.faults import EtcdFaults
from tests.simulation.variant import MEMORY, Variant

EVERYTHING = EtcdFaults(
    request_lost=0.03,
    reply_lost=0.03,
    slow=0.1,
    late=0.02,
    ring_lost=0.3,
    engine_restarts=0.1,
    processes_stop=0.3,
    processes_crash=0.05,
    tasks_cancelled=1.0,
    drift=0.004,
    leader_cut_off=0.1,
    follower_cut_off=0.1,
    leader_moves=0.2,
    compacted=0.5,
    leases_revoked=0.05,
)

ASSUMED = replace(
    MEMORY,
    exclusion_void_after=frozenset({Kind.FORGOT, Kind.BROKEN}),
    old_holds_come_back=False,
    free_within=6.0,
    idle_within=9.0,
)
"""What etcd promises.

Exclusion: a hold excludes others until it ends, except where an operator broke it or revoked its
lease. Members that are cut off, a new leader, and restarts void nothing.
Fences: they are unique and in order, always.
Progress: what a dead process held or waited for goes with its lease, within three seconds; a new
leader may begin to count them again.
"""

ETCD = Variant(
    node=Cluster, backend=SimEtcd, everything=EVERYTHING, ttls=(0.6, 1.0, 1.5), assumptions=ASSUMED
)
