"""How something grows, as lines on two logarithmic scales: what grows evenly rises by one slope.

A figure of nought has no place on such a scale and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.charts import FAINT, FONT, GRID, LIMIT, OURS, PEER, WIDTH, line, text

LEFT, RIGHT, TOP, HIGH, FOOT = 70, 190, 70, 230, 40
COLOURS = (OURS, PEER, LIMIT)

Point = tuple[float, float]


@dataclass
class LineChart:
    """What to show; `name` becomes the file's."""

    name: str
    title: str
    scale: str
    lines: Mapping[str, Sequence[Point]]

    def svg(self) -> str:
        shown = {name: [p for p in points if min(p) > 0] for name, points in self.lines.items()}
        across = _Scale([x for points in shown.values() for x, _ in points], LEFT, WIDTH - RIGHT)
        up = _Scale([y for points in shown.values() for _, y in points], TOP + HIGH, TOP)
        height = TOP + HIGH + FOOT
        size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        drawn = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
            text(20, 28, self.title, size=16, weight=600),
            text(20, 48, self.scale, colour=FAINT),
        ]
        for mark in across.marks():
            x = across.place(mark)
            drawn.append(line(x, TOP, x, TOP + HIGH, GRID))
            drawn.append(
                text(x, TOP + HIGH + 18, f"{mark:,.10g}", colour=FAINT, anchor="middle", size=11)
            )
        for mark in up.marks():
            y = up.place(mark)
            drawn.append(line(LEFT, y, WIDTH - RIGHT, y, GRID))
            drawn.append(
                text(LEFT - 8, y + 4, f"{mark:,.10g}", colour=FAINT, anchor="end", size=11)
            )
        ends: list[float] = []
        for colour, (name, points) in zip(COLOURS, shown.items(), strict=False):
            places = [(across.place(x), up.place(y)) for x, y in points]
            drawn += _drawn(places, colour)
            if places:
                drawn.append(
                    text(WIDTH - RIGHT + 12, _free(places[-1][1], ends), name, colour=colour)
                )
        return "\n".join([*drawn, "</svg>", ""])


def _drawn(places: Sequence[Point], colour: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in places]
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def _free(y: float, taken: list[float]) -> float:
    """Beside the end of a line, but not on the name of another one."""
    while any(abs(y - each) < 15 for each in taken):
        y += 15
    taken.append(y)
    return y + 4


class _Scale:
    """From a figure to its place, by its decades."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        found = values or [1.0]
        self._low = math.floor(math.log10(min(found)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(found))))
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        part = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + (self._end - self._start) * part

    def marks(self) -> list[float]:
        return [10.0**each for each in range(self._low, self._high + 1)]
