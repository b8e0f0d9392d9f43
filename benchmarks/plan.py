"""How much to measure: the same workloads in full, quickly, or just to see that they run."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """How many rounds, and how large each slice of a round is."""

    rounds: int
    scale: float
    seed: int = 2
    complete: bool = True
    """Every CPython here, and crews of full size; or just this one, and a few."""

    def count(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.scale))

    def seconds(self, full: float, least: float = 0.05) -> float:
        return max(least, full * self.scale)

    def few(self, full: int, least: int = 1) -> int:
        """For rounds that are dear: some part of the usual number."""
        return max(least, min(self.rounds, full))


FULL = Plan(rounds=15, scale=1.0)
QUICK = Plan(rounds=5, scale=0.3)
SMOKE = Plan(rounds=1, scale=0.005, complete=False)
