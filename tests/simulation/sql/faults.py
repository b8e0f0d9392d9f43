"""What may befall a database, its clock and its connections."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.network import Faults


@dataclass(frozen=True, slots=True)
class SqlFaults(Faults):
    """What may befall a database besides."""

    connections_cut: float = 0.0
    """By an administrator, a proxy or a firewall: some of them, at once. What was sent is done."""
    server_stops: float = 0.0
    """SIGSTOP: what is sent is done later."""
    rows_locked: float = 0.0
    """Somebody else's transaction keeps all rows of a name: who writes them waits."""
    deadlocks: float = 0.0
    """Of the statements that write, those that the database undoes and that are tried again."""
    clock_set_forward: float = 0.0
    """Everything that has an end comes nearer to it."""
    lagging_replica: float = 0.0
    """A failover to a replica that was behind: another server, with the rows of some time ago."""
    clock_behind: float = 0.0
    """Of the failovers, those to a server whose clock is behind the old one's."""
    pruned: float = 0.0
    """Rows of names that nobody has used for a while are deleted."""
