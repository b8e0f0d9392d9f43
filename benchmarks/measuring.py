"""How slices become numbers: interleaved rounds in shuffled order, then medians of ratios.

Noise only ever adds time, and it comes in spells. So every contender gets a slice in every round,
in an order that changes, and a ratio is the median of the ratios inside the rounds; the lower
quartile stands beside the median, as the number a quiet machine would give.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")


def _inexcusable(_name: str, problem: Exception) -> None:
    raise problem


def interleaved(
    contenders: Mapping[str, Callable[[], T]],
    rounds: int,
    seed: int,
    excuse: Callable[[str, Exception], None] = _inexcusable,
) -> dict[str, list[T]]:
    """One slice of each contender per round; the order is shuffled anew every round.

    One that fails takes no further part and is in no result, if `excuse` does not raise.
    """
    order = random.Random(seed)
    slices: dict[str, list[T]] = {name: [] for name in contenders}
    for _ in range(rounds):
        names = list(slices)
        order.shuffle(names)
        for name in names:
            try:
                slices[name].append(contenders[name]())
            except Exception as problem:  # noqa: BLE001  # whatever a peer may raise
                excuse(name, problem)
                del slices[name]
    return slices


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which this share of the others lies."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    place = (len(ordered) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    return quantile(values, 0.5)


def best_quarter(values: Sequence[float]) -> float:
    """The lower quartile: of times, where less is better."""
    return quantile(values, 0.25)


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of the ratios inside the rounds."""
    return median([a / b if b else math.nan for a, b in zip(one, other, strict=True)])


def jain(shares: Sequence[float]) -> float:
    """Jain's index of fairness: 1.0 when all got the same, 1/n when one got everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else math.nan


def spread(shares: Sequence[float]) -> float:
    """How far the most and the least served are apart, in parts of the mean."""
    mean = sum(shares) / len(shares)
    return (max(shares) - min(shares)) / mean if mean else 0.0  # nobody was served: all alike
