"""The asyncio face of barriers and latches: tasks and processes that wait for each other."""

from __future__ import annotations

from locknut.core import validation
from locknut.faces.barrier_base import BarrierBase, LatchBase


class Barrier(BarrierBase):
    """So many parties wait for each other, again and again. Tasks can share it."""

    __module__ = "locknut.aio"  # in reprs: users know no other place

    async def wait(self, timeout: validation.Duration | None = None) -> int:
        """Wait for all the others; return in which place this party came, from 0.

        Raises BrokenBarrier if not all came: one died or left, or its timeout expired.
        """
        return await self._party().meet(self._until(timeout))

    async def abort(self) -> None:
        """Break it for all who wait now."""
        await self._party().abort()

    async def waiting(self) -> int:
        """Return how many wait now."""
        return await self._party().waiting()


class Latch(LatchBase):
    """A number that anybody counts down, and that others wait for to reach 0."""

    __module__ = "locknut.aio"  # in reprs: users know no other place

    async def count_down(self) -> int:
        """Count one down; return how many are left. At 0 it does nothing."""
        return await self._countdown().count_down()

    async def wait(self, timeout: validation.Duration | None = None) -> bool:
        """Wait for 0. Return False if the timeout expired first."""
        return await self._countdown().wait(self._until(timeout))

    async def left(self) -> int:
        """Return how many are still to be counted down."""
        return await self._countdown().left()

    async def reset(self) -> None:
        """Begin anew; those who wait get BrokenBarrier."""
        await self._countdown().reset()
