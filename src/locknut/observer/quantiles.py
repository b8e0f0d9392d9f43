"""Quantiles and histograms of the durations that an observer saw."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

EDGES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""Seconds: what one looks at on a page lies between a millisecond and some hours."""


class Bar(NamedTuple):
    """How many durations were at least `low` and below `high`."""

    low: float
    high: float
    number: int


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of all is not above; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-share * len(ordered) // 1) - 1))]


def histogram(values: Sequence[float]) -> list[Bar]:
    """Bars from the shortest to the longest that was seen, empty ones between them included."""
    counts = [0] * (len(EDGES) + 1)
    for each in values:
        counts[bisect_right(EDGES, each)] += 1
    lows = (0.0, *EDGES)
    highs = (*EDGES, float("inf"))
    bars = [Bar(*each) for each in zip(lows, highs, counts, strict=True)]
    filled = [at for at, bar in enumerate(bars) if bar.number]
    return bars[filled[0] : filled[-1] + 1] if filled else []
