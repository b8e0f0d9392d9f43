"""The values that `waits_for` returns, for type annotations: who waits for whom, and deadlocks."""

from locknut.core.wait_graph import Blocker, Deadlock, Edge, Party, Wait, WaitGraph

__all__ = ["Blocker", "Deadlock", "Edge", "Party", "Wait", "WaitGraph"]
