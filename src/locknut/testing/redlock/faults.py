"""What may befall the nodes of a set."""

from __future__ import annotations

from dataclasses import dataclass

from locknut.testing.redis.faults import RedisFaults


@dataclass(frozen=True, slots=True)
class RedlockFaults(RedisFaults):
    """What may befall one of several servers besides."""

    snapshots: float = 0.0
    """How often a node saves its data: after a loss it may come back with what it saved last."""
    clock_jumps: float = 0.0
    """Forward, on a minority of the nodes."""
