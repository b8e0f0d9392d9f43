"""What may befall a Redis server and its connections, and bugs that are put into its scripts."""

from __future__ import annotations

from dataclasses import dataclass

from tests.simulation.network import Faults


@dataclass(frozen=True, slots=True)
class RedisFaults(Faults):
    """What may befall a Redis server besides."""

    connections_cut: float = 0.0
    """CLIENT KILL, or a firewall: some of them, at once."""
    server_stops: float = 0.0
    """SIGSTOP, DEBUG SLEEP: what is sent is done later."""
    scripts_flushed: float = 0.0
    keys_deleted: float = 0.0
    """By hand or by eviction: any one key."""
    emptied: float = 0.0
    """FLUSHALL: the connections stay."""
    clock_set_forward: float = 0.0
    """Everything that has an end comes nearer to it."""
    older_state: float = 0.0
    """A restart from a snapshot: what happened since then is forgotten, what had ended is back."""
    replicas_behind: float = 0.0
    """Of the questions of a client that waits for replicas, those that too few have answered."""
    lagging_replica: float = 0.0
    """A failover to a replica that was behind: another server, with a little less in it."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A bug put into a script: one piece of its text, replaced."""

    verb: str
    """Or `*`: what they all include."""
    old: str
    new: str

    def of(self, verb: str, text: bytes) -> bytes:
        if self.verb not in (verb, "*"):
            return text
        assert text.count(self.old.encode()) == 1, f"{self.verb}.lua has not, once: {self.old}"
        return text.replace(self.old.encode(), self.new.encode())
