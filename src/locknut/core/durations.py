"""How a duration is written for people: 10 ms, 2.2 s, 6 min 12 s, 30 days, 10 years."""

from __future__ import annotations

import math

_DAY = 86400
_YEAR = 365 * _DAY


def spell(seconds: float) -> str:
    """The duration in the units that a person would choose, two of them at most."""
    if math.isinf(seconds):
        return "for ever"
    if seconds < 119.95:
        short = 0 < seconds < 0.9995
        return f"{_short(seconds * 1000)} ms" if short else f"{_short(seconds)} s"
    whole = round(seconds)
    if whole < 2 * 3600:
        return _two(whole, 60, "min", 1, "s")
    if whole < 2 * _DAY:
        return _two(whole, 3600, "h", 60, "min")
    if whole < 2 * _YEAR:
        return f"{_short(whole / _DAY)} days"
    return f"{_short(whole / _YEAR)} years"


def _short(number: float) -> str:
    """At most one digit behind the point."""
    return f"{number:.1f}".removesuffix(".0")


def _two(whole: int, large: int, name: str, small: int, rest: str) -> str:
    count, left = divmod(whole, large)
    return f"{count} {name}" + (f" {left // small} {rest}" if left >= small else "")
