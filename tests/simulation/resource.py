"""A number somewhere that everybody reads, adds one to, and writes back, under a guard."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from tests.simulation.checker.history import Kind
from tests.simulation.coroutines import Died, Future

if TYPE_CHECKING:
    from tests.simulation.process import Process


class Guard(enum.Enum):
    """How carefully a resource looks at fences."""

    ENTERED = "before the first read"
    WRITES = "at writes only"
    """Not enough: a stale write can come between the new holder's read and write (S16)."""
    NONE = "not at all"


class Resource:
    """Refuses a step with a fence older than the newest that entered.

    A step is a message: it arrives later, whatever became of its sender meanwhile.
    """

    def __init__(self, name: str, guard: Guard = Guard.ENTERED) -> None:
        self.name = name
        self.guard = guard
        self.value = 0
        self.newest = -1

    async def step(
        self, process: Process, hold: str, kind: Kind, fence: int, value: int | None = None
    ) -> int | None:
        """Enter, read or write: the value afterwards, or None if the step was refused."""
        if process.dead:
            raise Died
        world = process.world
        answer: Future[int | None] = Future()

        def arrive() -> None:
            found = self._apply(kind, fence, value)
            told = Kind.REFUSED if found is None else kind
            shown = found if found is not None and kind is not Kind.ENTERED else None
            event = (process.name, told, self.name, hold)
            world.tell(*event, fence=fence, value=shown)
            process.soon(lambda: answer.resolve(found))

        world.after(world.random.uniform(0.0002, 0.02), arrive)
        return await answer

    def _apply(self, kind: Kind, fence: int, value: int | None) -> int | None:
        looks = self.guard is Guard.ENTERED or (self.guard is Guard.WRITES and kind is Kind.WROTE)
        if looks and fence < self.newest:
            return None
        if looks:
            self.newest = max(self.newest, fence)
        if kind is Kind.WROTE and value is not None:
            self.value = value
        return self.value
