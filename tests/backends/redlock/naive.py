"""Redlock as it was published, and no more: to show what the other one is for."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from tests.servers.redis import RedisServer


class NaiveRedlock:
    """Sets the key on all nodes, and believes a majority."""

    def __init__(self, nodes: Sequence[RedisServer]):
        self._nodes = nodes
        self.id = secrets.token_hex(16)

    def acquire(self, name: str, ttl: float) -> bool:
        votes = 0
        for node in self._nodes:
            try:
                votes += node.ask("SET", name, self.id, "NX", "PX", int(ttl * 1000)) == b"OK"
            except OSError:
                continue
        return votes > len(self._nodes) // 2

    def release(self, name: str) -> None:
        """Where it is ours, as far as can be seen now."""
        for node in self._nodes:
            if node.ask("GET", name) == self.id.encode():
                node.ask("DEL", name)
