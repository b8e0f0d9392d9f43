"""One chart says one thing: bars beside the limit and the peers, as an SVG that needs no library.

Grey is the limit, blue is Locknut, orange are the others: colours that everybody can tell apart,
on a light ground of their own, so that a dark page does not swallow the words. Where figures are
orders of magnitude apart they are dots on a logarithmic scale, because the length of a bar would
mean nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from benchmarks.kinds import bare, ours
from benchmarks.numbers import shown

WIDTH, LEFT, RIGHT, TOP, ROW, BAR, FOOT = 760, 190, 90, 70, 30, 18, 62
LIMIT, OURS, PEER, INK, FAINT, GRID = (
    "#8c8c8c", "#0072b2", "#e69f00", "#1f2328", "#59636e", "#e3e6ea",
)  # fmt: skip
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass
class Chart:
    """What to show; `name` becomes the file's."""

    name: str
    title: str
    scale: str
    """What the figures are, and which way is better."""
    figures: Mapping[str, float]
    targets: Mapping[str, float] = field(default_factory=dict)
    log: bool = False

    def svg(self) -> str:
        rows = _ordered(self.figures, rising=self.log)
        height = TOP + ROW * len(rows) + FOOT
        axis = _Axis([value for _, value in rows] + list(self.targets.values()), log=self.log)
        bottom = TOP + ROW * len(rows)
        size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="6" fill="#ffffff"/>',
            text(20, 28, self.title, size=16, weight=600),
            text(20, 48, self.scale, colour=FAINT),
        ]
        for mark in axis.marks():
            x = axis.place(mark)
            lines.append(line(x, TOP - 4, x, bottom, GRID))
            lines.append(text(x, bottom + 16, _short(mark), colour=FAINT, anchor="middle", size=11))
        for place, (name, value) in enumerate(rows):
            lines += self._row(axis, TOP + ROW * place, name, value)
        lines += _legend(height - 16, targets=bool(self.targets))
        return "\n".join([*lines, "</svg>", ""])

    def _row(self, axis: _Axis, top: float, name: str, value: float) -> Iterator[str]:
        middle, end, colour = top + ROW / 2, axis.place(value), _colour(name)
        weight = 600 if ours(name) else 400
        yield text(LEFT - 14, middle + 4.5, name, anchor="end", weight=weight)
        if self.log:
            yield line(axis.place(axis.low), middle, end, middle, colour, width=2, opacity=0.35)
            yield f'<circle cx="{end:.1f}" cy="{middle:.1f}" r="6" fill="{colour}"/>'
        else:
            wide = max(1.5, end - LEFT)
            yield (
                f'<rect x="{LEFT}" y="{middle - BAR / 2:.1f}" width="{wide:.1f}" height="{BAR}" '
                f'rx="2" fill="{colour}"/>'
            )
        after = end
        if name in self.targets:
            x = axis.place(self.targets[name])
            yield line(x, middle - BAR / 2 - 4, x, middle + BAR / 2 + 4, INK, width=2)
            after = max(end, x) if x - end < 70 else end
        told = shown(value) if value >= 10 else f"{value:.2g}"
        yield text(after + 11, middle + 4.5, told, weight=weight)


class _Axis:
    """From a figure to its place on the page."""

    def __init__(self, values: list[float], *, log: bool) -> None:
        self._log = log
        found = [value for value in values if value > 0 and math.isfinite(value)] or [1.0]
        if log:
            self.low = 10.0 ** math.floor(math.log10(min(found)))
            self.high = 10.0 ** math.ceil(math.log10(max(found)))
            self.high = max(self.high, self.low * 10)
        else:
            self.low, self.high = 0.0, max(found)

    def place(self, value: float) -> float:
        wide = WIDTH - LEFT - RIGHT
        if not self._log:
            return LEFT + wide * min(1.0, max(0.0, value / self.high))
        part = math.log10(max(value, self.low) / self.low) / math.log10(self.high / self.low)
        return LEFT + wide * min(1.0, part)

    def marks(self) -> list[float]:
        if self._log:
            decades = round(math.log10(self.high / self.low))
            return [self.low * 10.0**each for each in range(decades + 1)]
        step = _round_step(self.high / 4)
        return [step * each for each in range(math.floor(self.high / step + 1e-9) + 1)]


def _round_step(rough: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * each for each in (1, 2, 5, 10) if power * each >= rough)


def _ordered(figures: Mapping[str, float], *, rising: bool) -> list[tuple[str, float]]:
    """The limit, then ours, then the others from the best on."""
    group = {name: 0 if bare(name) else 1 if ours(name) else 2 for name in figures}
    sign = 1 if rising else -1
    return sorted(figures.items(), key=lambda each: (group[each[0]], sign * each[1]))


def _colour(name: str) -> str:
    return LIMIT if bare(name) else OURS if ours(name) else PEER


def _legend(y: float, *, targets: bool) -> Iterator[str]:
    x = float(LEFT)
    for colour, word in ((LIMIT, "bare limit"), (OURS, "Locknut"), (PEER, "others")):
        yield f'<rect x="{x:.0f}" y="{y - 10:.0f}" width="11" height="11" rx="2" fill="{colour}"/>'
        yield text(x + 17, y, word, colour=FAINT, size=12)
        x += 40 + 7 * len(word)
    if targets:
        yield line(x + 4, y - 12, x + 4, y + 2, INK, width=2)
        yield text(x + 13, y, "target", colour=FAINT, size=12)


def text(  # noqa: PLR0913  # what SVG wants to know
    x: float,
    y: float,
    words: str,
    *,
    colour: str = INK,
    anchor: str = "start",
    size: int = 13,
    weight: int = 400,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def line(  # noqa: PLR0913, PLR0917  # the same
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, opacity: float = 1
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}" stroke-opacity="{opacity}"/>'
    )


def _short(mark: float) -> str:
    return f"{mark:,.0f}" if mark >= 10 or mark == 0 else f"{mark:g}"
