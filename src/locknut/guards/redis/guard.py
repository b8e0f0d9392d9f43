"""What the guards of both colours have in common: a client, a record, and a fence."""

from __future__ import annotations

from typing import Any, Protocol

from locknut.guards.redis import steps


class RedisClient(Protocol):
    """What is needed of a client of redis-py (or valkey-py, or a cluster's), in its own colour."""

    def evalsha(self, sha: str, numkeys: int, *keys_and_args: Any) -> Any: ...

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any: ...

    def get(self, name: str) -> Any: ...


class RedisGuardBase:
    """Entered with one fence, for what belongs to one key."""

    def __init__(self, client: RedisClient, key: str) -> None:
        self._client = client
        self.key = steps.resource(key)
        self.record = steps.record_of(key)
        self._fence: int | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r}, fence={self._fence})"

    @property
    def fence(self) -> int | None:
        """The fence this guard was entered with."""
        return self._fence
