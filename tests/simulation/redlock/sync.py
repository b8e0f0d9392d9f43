"""The production backend of the blocking colour: its connections wait in the simulator's poll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from locknut.backends.redlock.node_rings import GRACE, WaitingClaim
from locknut.backends.redlock.questions import Question
from locknut.backends.redlock.rounds import Heard, Until
from locknut.backends.redlock.sync import Bell, BlockingBackend
from locknut.backends.redlock.thread_connections import ThreadConnections
from locknut.core.ports import Signal
from locknut.core.values import Claim
from tests.simulation.coroutines import Task
from tests.simulation.process import Process, SimRuntime
from tests.simulation.redis.client_end import now
from tests.simulation.redlock.node_set import Cluster, marked
from tests.simulation.redlock.simulated_sockets import Poll

LIMIT = 0.3


class SimConnections(ThreadConnections):
    """The production connections of one thread, to all nodes; only sleeping is another."""

    _poll: Any
    """The kernel's, in a process; here `kernel.Poll`."""

    async def asked(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        """As `ask`."""
        with self._mutex:
            self._begin()
            await self._asked(questions, heard, until)
            self._end()

    async def _asked(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        self._work(0.0)
        left, decided = len(questions), False

        def hear(question: Question, reply: Any, sent: float) -> None:
            nonlocal left, decided
            left -= 1
            decided = heard(question, reply, sent) or decided

        for question in questions:
            self.by_node[question.node].ask(question, hear, now())
        while left and not decided and (patience := until() - now()) > 0:
            await self._sleep(patience)
            self._work(0.0)

    async def worked(self, patience: float) -> None:
        """As `work`."""
        with self._mutex:
            self._begin()
            await self._sleep(patience)
            self._work(0.0)
            self._end()

    async def _sleep(self, patience: float) -> None:
        poll: Poll = self._poll
        await poll.happened(patience)


class SimBell(Bell):
    """As in production, but for the sleep."""

    _connections: SimConnections

    async def wait(self, until: float) -> bool:
        first = None
        while True:
            if await self._plain.wait(0.0) or self._waiting.enough():
                return True
            if self._waiting.rung and first is None:
                first = now()
                until = min(until, first + GRACE)
            left = until - now()
            if left <= 0:
                return first is not None
            await self._connections.worked(left)


class SimBlocking(BlockingBackend):
    """The blocking colour: a task of the simulator is a thread, with connections of its own."""

    def __init__(self, process: Process, cluster: Cluster) -> None:
        _, nodes, recipe, _ = cluster.known_by(process)
        super().__init__(nodes, recipe, LIMIT, SimRuntime(process))
        self._process = process
        self._cluster = cluster
        self._by_task: WeakKeyDictionary[Task, SimConnections] = WeakKeyDictionary()

    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        await self._connections().asked([marked(each) for each in questions], heard, until)

    def repay(self, node: int, claim: Claim) -> Question:
        return marked(super().repay(node, claim))

    def _signal(self, waiting: WaitingClaim, plain: Signal) -> Signal:
        connections = self._connections()
        waiting.listening = connections.channel
        return SimBell(connections, waiting, plain)

    def _connections(self) -> SimConnections:
        task = self._process.world.current
        assert task is not None
        connections = self._by_task.get(task)
        if connections is None:
            connections = self._by_task[task] = SimConnections(self._set, self.repay, self._rung)
        return connections
