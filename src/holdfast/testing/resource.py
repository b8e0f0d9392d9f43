"""A number somewhere that everybody reads, adds one to, and writes back, under a guard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.testing.history import Kind
from holdfast.testing.stepping import Future

if TYPE_CHECKING:
    from holdfast.testing.process import Process


class Resource:
    """Refuses a step with a fence older than the newest that entered, unless it is unguarded.

    A step is a message: it arrives later, whatever became of its sender meanwhile.
    """

    def __init__(self, name: str, *, guarded: bool = True) -> None:
        self.name = name
        self.guarded = guarded
        self.value = 0
        self.newest = -1

    async def step(
        self, process: Process, hold: str, kind: Kind, fence: int, value: int | None = None
    ) -> int | None:
        """Enter, read or write: the value afterwards, or None if the step was refused."""
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
        if self.guarded and fence < self.newest:
            return None
        if kind is Kind.ENTERED:
            self.newest = max(self.newest, fence)
        elif kind is Kind.WROTE and value is not None:
            self.value = value
        return self.value
