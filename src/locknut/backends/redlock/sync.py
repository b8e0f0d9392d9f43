"""The blocking colour: each thread asks all nodes by itself, and sleeps until they ring."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from locknut.backends.redlock.backend import RedlockBackend
from locknut.backends.redlock.node_rings import GRACE, WaitingClaim
from locknut.backends.redlock.nodes import NodeSet
from locknut.backends.redlock.questions import Question
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.rounds import Heard, Until
from locknut.backends.redlock.thread_connections import ThreadConnections
from locknut.core.findings import Check
from locknut.core.ports import Runtime, Signal
from locknut.errors import BackendUnavailable
from locknut.runtimes.cpython import members


class BlockingBackend(RedlockBackend):
    """Each thread has connections of its own to all nodes."""

    def __init__(self, nodes: NodeSet, recipe: Recipe, limit: float, runtime: Runtime):
        super().__init__(nodes, recipe, limit, runtime)
        self._local = threading.local()
        self._every_thread: weakref.WeakSet[ThreadConnections] = weakref.WeakSet()

    def inside(self) -> bool:
        connections: ThreadConnections | None = getattr(self._local, "connections", None)
        return connections is not None and connections.at_work()

    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        self._connections().ask(questions, heard, until)

    def _tell(self, questions: Sequence[Question]) -> None:
        self._connections().tell(questions)

    def _signal(self, waiting: WaitingClaim, plain: Signal) -> Signal:
        connections = self._connections()
        waiting.listening = connections.channel
        return Bell(connections, waiting, plain)

    def _connections(self) -> ThreadConnections:
        connections: ThreadConnections | None = getattr(self._local, "connections", None)
        if connections is None:
            try:
                connections = ThreadConnections(self._set, self.repay, self._rung)
            except OSError as error:  # such as: no more files can be opened
                message = f"this thread cannot connect to the nodes: {error}"
                raise BackendUnavailable(message, backend=self.name) from error
            self._local.connections = connections
            self._every_thread.add(connections)
            if self.closed:  # looked at last: `close` may have missed these
                connections.retire()
        return connections

    def _rung(self, node: int, claim_id: bytes) -> None:
        waiting = self._waiting.get(claim_id.decode())
        if waiting is not None:
            waiting.rung_by(node)

    def checks(self, prefix: str) -> Sequence[Check]:  # noqa: ARG002 -- the whole set
        from locknut.backends.redlock import checkup  # few programs need it

        return checkup.checks([node.place for node in self._set.nodes], self._recipe)

    async def close(self) -> None:
        self.closed = True
        self._local = threading.local()
        for connections in members(self._every_thread):
            connections.close()
        self._every_thread.clear()

    def forked(self) -> None:
        """The sockets are closed already, and hanging up properly would wake the parent."""
        self._local = threading.local()
        self._every_thread.clear()
        self._waiting.clear()


class Bell:
    """Sleeps until enough nodes rang for another attempt, or until another thread notifies it."""

    def __init__(self, connections: ThreadConnections, waiting: WaitingClaim, plain: Signal):
        self._connections = connections
        self._waiting = waiting
        self._plain = plain

    def notify(self) -> None:
        self._plain.notify()
        self._connections.wake()

    async def wait(self, until: float) -> bool:
        first = None
        while True:
            if await self._plain.wait(0.0) or self._waiting.enough():
                return True
            if self._waiting.rung and first is None:
                first = self._connections.now()
                until = min(until, first + GRACE)
            left = until - self._connections.now()
            if left <= 0:
                return first is not None
            self._connections.work(left)
