"""Where a server is to be found, the same question in both colours: here, one fixed address.

A place is shared by all backends of an engine and keeps no connection. How to open one is the
colour's affair: it hands in a `Dial`, and in the blocking colour nothing here suspends.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol, TypeVar

from locknut.backends.redis.settings import Settings
from locknut.backends.redis.wire import Welcome
from locknut.errors import BackendError

log = logging.getLogger("locknut.redis")


class Peer(Protocol):
    """One connection that has been greeted."""

    welcome: Welcome

    def close(self) -> object: ...


P = TypeVar("P", bound=Peer)


class Dial(Protocol[P]):
    """How one colour opens a connection and asks something on it; no answer is an OSError."""

    async def open(self, settings: Settings, *, curious: bool = False) -> P: ...

    async def ask(self, peer: P, packed: bytes) -> Any: ...


class Place(Protocol):
    """Who is to be spoken to: one server at a time, though not always the same."""

    settings: Settings
    """How it is spoken to; where it is may be found out later."""

    async def reach(self, dial: Dial[P]) -> P:
        """A new connection to the master, as it is now."""


class Looked:
    """What is looked at once per server, by whoever connects there first: eviction."""

    def __init__(self) -> None:
        self._places: set[str] = set()

    async def open(self, dial: Dial[P], settings: Settings) -> P:
        curious = settings.place not in self._places
        peer = await dial.open(settings, curious=curious)
        if curious:
            self._places.add(settings.place)
            if peer.welcome.evicts:
                log.warning(
                    "%s may evict keys (maxmemory-policy %s): a hold can vanish while it is held; "
                    "locks need a server with noeviction",
                    settings.place,
                    peer.welcome.evicts,
                )
        return peer


class Single:
    """One server, always the same."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self._looked = Looked()

    async def reach(self, dial: Dial[P]) -> P:
        peer = await self._looked.open(dial, self.settings)
        if peer.welcome.role == "replica":
            peer.close()
            message = f"{self.settings.place} is a read-only replica: connect to its master"
            raise BackendError(message, backend="redis")
        return peer
