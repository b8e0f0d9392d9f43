"""The blocking face of barriers and latches: threads and processes that wait for each other."""

from __future__ import annotations

from locknut.core import validation
from locknut.faces.barrier_base import BarrierBase, LatchBase
from locknut.runtimes.threads import run


class Barrier(BarrierBase):
    """So many parties wait for each other, again and again. Threads can share it."""

    __module__ = "locknut"  # in reprs: users know no other place

    def wait(self, timeout: validation.Duration | None = None) -> int:
        """Wait for all the others; return in which place this party came, from 0.

        Raises BrokenBarrier if not all came: one died or left, or its timeout expired.
        """
        return run(self._party().meet(self._until(timeout)))

    def abort(self) -> None:
        """Break it for all who wait now."""
        run(self._party().abort())

    def waiting(self) -> int:
        """Return how many wait now."""
        return run(self._party().waiting())


class Latch(LatchBase):
    """A number that anybody counts down, and that others wait for to reach 0."""

    __module__ = "locknut"  # in reprs: users know no other place

    def count_down(self) -> int:
        """Count one down; return how many are left. At 0 it does nothing."""
        return run(self._countdown().count_down())

    def wait(self, timeout: validation.Duration | None = None) -> bool:
        """Wait for 0. Return False if the timeout expired first."""
        return run(self._countdown().wait(self._until(timeout)))

    def left(self) -> int:
        """Return how many are still to be counted down."""
        return run(self._countdown().left())

    def reset(self) -> None:
        """Begin anew; those who wait get BrokenBarrier."""
        run(self._countdown().reset())
