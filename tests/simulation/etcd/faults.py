"""What may befall a cluster, its members and the clients' ways to them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.network import Faults


@dataclass(frozen=True, slots=True)
class EtcdFaults(Faults):
    """What may befall a cluster besides."""

    leader_cut_off: float = 0.0
    """From the other members, not from clients: it goes on to answer keep-alives for a while."""
    follower_cut_off: float = 0.0
    leader_moves: float = 0.0
    """Another member leads, in a new term; the old one learns of it a little later."""
    compacted: float = 0.0
    """What happened until now cannot be watched any more."""
    leases_revoked: float = 0.0
    """By an operator: the lease of some process, with all that it holds."""
