"""A simulated TCP connection: bytes come in order or not at all, late, in pieces, or to nobody.

Each direction has its own luck. What was sent before a break may still arrive; who is cut off is
told at once, or late, or finds out by himself: a half-open connection is one whose other end is
gone without a word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tests.simulation.network import Network

STEP = 1e-7
"""Between two pieces of one direction, so that they never change places."""
UNNOTICED = (1.0, 7.0)
"""Seconds until an end that nobody told learns by itself that the other is gone."""
BROKEN = 0.5
"""How often a break is noticed by both ends at once, and not half-open."""
SPLIT = 0.1
"""How often what is sent in one go arrives in two."""


class End(Protocol):
    """Who is told what arrives."""

    def arrived(self, data: bytes) -> None: ...

    def hung_up(self) -> None:
        """The connection is over; told once."""


class Direction:
    """From one end to the other."""

    def __init__(self, network: Network, loss: str, to: Callable[[], End | None]) -> None:
        self._network = network
        self._loss = loss
        self._to = to
        self._ready = 0.0
        self.dead = False
        """Nothing that is sent from now on arrives."""

    def send(self, data: bytes) -> None:
        world = self._network.world
        if world.chance(SPLIT) and len(data) > 1:
            cut = world.random.randrange(1, len(data))
            self._put(data[:cut])
            data = data[cut:]
        self._put(data)

    def hang_up(self) -> None:
        if not self.dead:
            self._deliver(b"")
            self.dead = True

    def _put(self, data: bytes) -> None:
        if self.dead:
            return
        if self._network.befalls(self._loss):
            self.dead = True
            return
        self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        world = self._network.world
        self._ready = max(self._ready + STEP, world.now + self._network.delay())

        def arrive() -> None:
            end = self._to()
            if end is not None and data:
                end.arrived(data)
            elif end is not None:
                end.hung_up()

        world.at(self._ready, arrive)


class Wire:
    """One connection, between a client's end and the server's."""

    def __init__(self, network: Network, client: End, server: End) -> None:
        self._network = network
        self._client: End | None = client
        self._server: End | None = server
        self._there = Direction(network, "request_lost", lambda: self._server)
        self._back = Direction(network, "reply_lost", lambda: self._client)

    def request(self, data: bytes) -> None:
        self._there.send(data)
        self._noticed(self._there)

    def answer(self, data: bytes) -> None:
        self._back.send(data)
        self._noticed(self._back)

    def client_left(self) -> None:
        """Closed by the client: what it sent before is on its way, what comes finds nobody."""
        self._client = None
        self._there.hang_up()
        self._later(self._lose_server)

    def server_left(self) -> None:
        self._server = None
        self._back.hang_up()
        self._later(self._lose_client)

    def cut(self) -> None:
        """By somebody in between."""
        self._there.dead = self._back.dead = True
        self._network.world.after(self._network.delay(), self._lose_client)
        self._network.world.after(self._network.delay(), self._lose_server)

    def _noticed(self, direction: Direction) -> None:
        if direction.dead and self._network.world.chance(BROKEN):
            self.cut()

    def _later(self, call: Callable[[], None]) -> None:
        self._network.world.after(self._network.world.random.uniform(*UNNOTICED), call)

    def _lose_client(self) -> None:
        end, self._client = self._client, None
        if end is not None:
            end.hung_up()

    def _lose_server(self) -> None:
        end, self._server = self._server, None
        if end is not None:
            end.hung_up()
