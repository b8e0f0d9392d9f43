"""Where a server is to be found, the same question in both colours: here, one fixed address.

An endpoint is shared by all backends of an engine and keeps no connection. How to open one is the
colour's affair: it hands in a `Dial`, and in the blocking colour nothing here suspends.
"""

from __future__ import annotations

import logging
import random
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar

from locknut.drivers.redis.settings import Settings
from locknut.drivers.redis.wire import Welcome
from locknut.errors import BackendError, BackendUnavailable
from locknut.runtimes.clock import now
from locknut.runtimes.cpython import members

LONG_IDLE: Final = 0.25
"""Seconds without a word after which a watched endpoint is asked who the master is: a server that
was frozen for longer may have been succeeded, and not know it yet."""
SLOW_TO_OPEN: Final = 0.1
"""The same for a new connection, which the kernel accepts for a frozen server."""
BRIEFLY: Final = 0.25
"""Seconds that one of several may take to say where the master is before the next one is asked. A
loop asks for all its tasks at once, whatever time each of them has. If nobody answers so soon, who
was silent is asked again, and waited for as long as a command may take."""
log = logging.getLogger("locknut.redis")


class TimeAndChance(Protocol):
    """What connections take from the runtime of their user: time, and chance."""

    def now(self) -> float: ...

    def random(self) -> float:
        """Between 0 and 1."""


class Machine:
    """The clock and the chance of the machine, where there is no runtime to take them from."""

    def now(self) -> float:
        return now()

    def random(self) -> float:
        return random.random()  # noqa: S311  # not a secret


MACHINE: Final = Machine()


class Peer(Protocol):
    """One connection that has been greeted."""

    welcome: Welcome
    peer: Any
    """The address at the other end, as the kernel knows it."""

    def close(self) -> object: ...


P = TypeVar("P", bound=Peer)


class Dial(Protocol[P]):
    """How one colour opens a connection and asks something on it; no answer is an OSError."""

    @property
    def clock(self) -> TimeAndChance: ...

    async def open(self, settings: Settings, *, curious: bool = False) -> P: ...

    async def ask(self, peer: P, packed: bytes) -> Any: ...


class Follower(Protocol):
    """Somebody with connections to the endpoint."""

    def overtaken(self) -> None:
        """From any thread: another server has been reached there, or will be."""


class Latest:
    """Which server was reached last, by any of an engine's backends: it is the one to believe.

    A deposed master may go on answering clients that are still connected to it. So when one backend
    has found its successor, the others leave it too, and its later answers do not count.
    """

    def __init__(self) -> None:
        self.epoch = 0
        """Grows when another server is reached."""
        self._peer: Any = None
        self._mutex = threading.Lock()
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()
        self._listeners: list[Callable[[], None]] = []

    def follow(self, follower: Follower) -> None:
        self._followers.add(follower)

    def listen(self, listener: Callable[[], None]) -> None:
        """Have it called, from any thread, when the holds of this endpoint may be at stake."""
        self._listeners.append(listener)

    def reached(self, peer: Any) -> None:
        with self._mutex:
            known, self._peer = self._peer, peer
            another = known is not None and known != peer
            self.epoch += another
        if another:
            self._tell()

    def overtake(self) -> None:
        """The server that was reached last is not the one any more; who is will be seen."""
        with self._mutex:
            self._peer = None
            self.epoch += 1
        self._tell()

    def _tell(self) -> None:
        for follower in members(self._followers):
            follower.overtaken()
        for listener in self._listeners:
            listener()

    def forked(self) -> None:
        """In a child, the thread that had the mutex does not exist."""
        self._mutex = threading.Lock()


def overtaken(settings: Settings) -> BackendUnavailable:
    """Instead of the answer of a server that has been succeeded by another."""
    message = f"{settings.place} is not the master any more, so its answer does not count"
    return BackendUnavailable(message, backend="redis")


class Endpoint(Protocol):
    """The server to speak to: one at a time, though not always the same."""

    settings: Settings
    """How it is spoken to; where it is may be found out later."""
    latest: Latest
    watched: bool
    """Whether somebody can be asked, by `confirm`, who the master is."""

    async def reach(self, dial: Dial[P]) -> P:
        """A new connection to the master, as it is now."""

    async def confirm(self, dial: Dial[Any]) -> None:
        """Have it noticed (by `latest`) if another is the master by now."""


class ConfiguredEndpoint(Endpoint, Protocol):
    """An endpoint that a user named."""

    def anew(self) -> ConfiguredEndpoint:
        """The same endpoint, of which nothing was learned yet: a forked child has its own."""


class EvictionCheck:
    """What the first connection to a server looks at, once: eviction."""

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


class FixedEndpoint:
    """One server, always the same."""

    watched = False

    def __init__(self, settings: Settings):
        self.settings = settings
        self.latest = Latest()
        self._eviction_check = EvictionCheck()
        self._served = False
        """Whether a master was reached here: then it will be again, as at a name that moves."""

    async def reach(self, dial: Dial[P]) -> P:
        peer = await self._eviction_check.open(dial, self.settings)
        if peer.welcome.role != "replica":
            self._served = True
            return peer
        peer.close()
        if self._served:
            message = f"{self.settings.place} has become a replica: its master is waited for"
            raise BackendUnavailable(message, backend="redis")
        message = f"{self.settings.place} is a read-only replica: connect to its master"
        raise BackendError(message, backend="redis")

    async def confirm(self, dial: Dial[Any]) -> None:
        """Nobody else knows."""

    def anew(self) -> FixedEndpoint:
        return FixedEndpoint(self.settings)
