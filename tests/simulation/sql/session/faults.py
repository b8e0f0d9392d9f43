"""What may befall the sessions of a database, and the heartbeat of those that hold by them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.sql.faults import SqlFaults


@dataclass(frozen=True, slots=True)
class SessionFaults(SqlFaults):
    """What may befall sessions besides. A lost message takes its connection with it."""

    sessions_killed: float = 0.0
    """By an administrator: one of those that have a lock or wait for one."""
    silent_reconnects: float = 0.0
    """Of the sessions that end, those in whose place a driver or proxy opens another unasked."""
    half_open: float = 0.0
    """Of the processes that crash, those whose machine is gone: the server keeps their sessions."""
    heartbeats_stop: float = 0.0
    """A keeper stands still, while the rest of its process goes on."""
