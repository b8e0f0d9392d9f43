"""How much to measure: the same workloads in full, quickly, or just to see that they run."""

from __future__ import annotations

from typing import NamedTuple


class Plan(NamedTuple):
    """How many rounds, and how large each slice of a round is."""

    name: str
    rounds: int
    scale: float
    seed: int = 2
    dear: float = 1.0
    """Which part of the rounds that take long."""
    complete: bool = True
    """Every CPython here, and crews of full size; or just this one, and a few."""

    def count(self, full: int, least: int = 1) -> int:
        return max(least, round(full * self.scale))

    def seconds(self, full: float, least: float = 0.05) -> float:
        return max(least, full * self.scale)

    def few(self, full: int, least: int = 1) -> int:
        """For rounds that take long: not as many as usual."""
        return max(least, min(self.rounds, round(full * self.dear)))


FULL = Plan("full", rounds=15, scale=1.0)
QUICK = Plan("quick", rounds=5, scale=0.3, dear=0.5)
SMOKE = Plan("smoke", rounds=1, scale=0.005, complete=False)
