"""Whether something grows faster than what it is for: the slope of its logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

LEAST = 100
"""Below this many locks the fixed cost of a process hides what grows."""
SUSPECT = 1.15
"""Twice as many then cost 2.2 times as much. Chosen, not measured: some room for noise."""
QUANTITIES = {
    "client_cpu": "processor time of the client",
    "server_cpu": "processor time of the server",
    "requests_per_second": "requests",
    "client_bytes": "memory of the client",
    "stored": "what the engine stores",
}


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """1.0 for what grows evenly, 2.0 for a square; by least squares. Nan for less than two."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len(logs) < 2:
        return math.nan
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    if not spread:
        return math.nan
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread


def exponents(measured: dict[str, Any]) -> dict[str, float]:
    """Of everything that grows with the locks that are held."""
    held = [each for each in measured["held"] if each["locks"] >= LEAST]
    found = {key: exponent([(each["locks"], each[key]) for each in held]) for key in QUANTITIES}
    return {key: value for key, value in found.items() if not math.isnan(value)}


def warnings(measured: dict[str, Any]) -> list[str]:
    """What has to be mended, or explained."""
    return [
        f"{QUANTITIES[key]} grows faster than the locks: with their number to the power {value:.2f}"
        for key, value in exponents(measured).items()
        if value > SUSPECT
    ]
