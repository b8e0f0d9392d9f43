"""What may befall the nodes of a set."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.redis.faults import RedisFaults


@dataclass(frozen=True, slots=True)
class RedlockFaults(RedisFaults):
    """What may befall one of several servers besides."""

    snapshots: float = 0.0
    """How often a node saves its data: after a loss it may come back with what it saved last."""
    clock_jumps: float = 0.0
    """Forward, on a minority of the nodes."""
    clock_returns: float = 0.0
    """The same, and soon it is right again; somebody asked the node something in between."""
    boots_behind: float = 0.0
    """One restarts without its data and with a clock that is behind; soon it is set right."""
    resyncs: float = 0.0
    """REPLICAOF another server and back: the same process has nothing, or old data, from now on."""
    swaps: float = 0.0
    """Another server, up for long, takes its address: it has nothing, or old data."""
    other_lists: float = 0.0
    """Of the clients, those that have another server in their list in place of a node."""
    cut_off: float = 0.0
    """Of the clients, those that cannot reach one of the nodes until the faults are over."""

    @property
    def fences_outlive_both(self) -> bool:
        """A majority of the nodes has the time, and it counts."""
        return True
