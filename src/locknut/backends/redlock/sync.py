"""The blocking colour: a thread speaks with all nodes by itself, and sleeps until they ring."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence

from locknut.backends.redlock.asking import Heard, Until
from locknut.backends.redlock.backend import RedlockBackend
from locknut.backends.redlock.crews import Crew
from locknut.backends.redlock.questions import Question
from locknut.backends.redlock.recipe import Recipe
from locknut.backends.redlock.sets import Set
from locknut.backends.redlock.waiting import GRACE, Waiting
from locknut.core.ports import Signal
from locknut.runtimes.clock import now


class BlockingBackend(RedlockBackend):
    """A crew of connections per thread."""

    def __init__(self, nodes: Set, recipe: Recipe, limit: float):
        super().__init__(nodes, recipe, limit)
        self._local = threading.local()
        self._crews: weakref.WeakSet[Crew] = weakref.WeakSet()

    def inside(self) -> bool:
        crew: Crew | None = getattr(self._local, "crew", None)
        return crew is not None and crew.at_work()

    async def _ask(self, questions: Sequence[Question], heard: Heard, until: Until) -> None:
        self._crew().ask(questions, heard, until)

    def _tell(self, questions: Sequence[Question]) -> None:
        self._crew().tell(questions)

    def _signal(self, waiting: Waiting, plain: Signal) -> Signal:
        crew = self._crew()
        waiting.listening = crew.channel
        return Bell(crew, waiting, plain)

    def _crew(self) -> Crew:
        crew: Crew | None = getattr(self._local, "crew", None)
        if crew is None:
            crew = Crew(self._set.nodes, self.repay, self._rung)
            self._local.crew = crew
            self._crews.add(crew)
        return crew

    def _rung(self, node: int, claim_id: bytes) -> None:
        waiting = self._waiting.get(claim_id.decode())
        if waiting is not None:
            waiting.told(node)

    async def close(self) -> None:
        self._local = threading.local()
        for crew in list(self._crews):
            crew.close()
        self._crews.clear()

    def forked(self) -> None:
        """The sockets are closed already; to hang up properly would wake the parent's crew."""
        self._local = threading.local()
        self._crews.clear()
        self._waiting.clear()


class Bell:
    """Sleeps until so many nodes rang that asking is worth it, or somebody else does."""

    def __init__(self, crew: Crew, waiting: Waiting, plain: Signal):
        self._crew = crew
        self._waiting = waiting
        self._plain = plain

    def notify(self) -> None:
        self._plain.notify()
        self._crew.wake()

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
            self._crew.work(left)
