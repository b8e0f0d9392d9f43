"""Where things stand in the drawings of a page: lanes of a timeline, bars, small curves.

Coordinates only; the templates draw them. Lanes and bars are `WIDTH` wide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from locknut.cli.messages import span, who
from locknut.observer.quantiles import Bar, histogram
from locknut.observer.sightings import Span

WIDTH = 1000.0
LANES = 12
"""More owners than these do not fit on a screen: the latest are shown."""
_SHORTEST, _LONGEST = 60.0, 3600.0
_NARROWEST = 3.0
"""A piece that is narrower cannot be seen on a screen."""


class Piece(NamedTuple):
    """A hold or a wait on its lane."""

    x: float
    width: float
    kind: str
    """hold or wait."""
    bad: bool
    """Whether its end is red."""
    open: bool
    title: str


class Lane(NamedTuple):
    """One owner's row."""

    owner: str
    pieces: list[Piece]


class Timeline(NamedTuple):
    """Lanes, and how long the time is that they show."""

    lanes: list[Lane]
    lasts: str
    hidden: int
    """Owners that found no room."""
    summary: str
    """What somebody hears who cannot see it."""


def timeline(holds: Sequence[Span], waits: Sequence[Span], now: float) -> Timeline:
    """The last minutes: as many as there is something to show of, an hour at most."""
    first = min((each.since for each in (*holds, *waits)), default=now)
    length = min(_LONGEST, max(_SHORTEST, (now - first) * 1.05))
    begin = now - length
    holds, waits = ([each for each in kind if _end(each, now) >= begin] for kind in (holds, waits))
    rows: dict[str, list[Piece]] = {}
    for kind, each in (*(("wait", one) for one in waits), *(("hold", one) for one in holds)):
        rows.setdefault(who(each.holder), []).append(_piece(kind, each, begin, now))
    latest = sorted(rows, key=lambda owner: -max(each.x + each.width for each in rows[owner]))
    lanes = [Lane(owner, rows[owner]) for owner in latest[:LANES]]
    summary = (
        f"Timeline of the last {span(length)}: holds {len(holds)}, waits {len(waits)}, "
        f"owners {len(rows)}, holds that ended badly {sum(each.ending.bad for each in holds)}."
    )
    return Timeline(lanes, span(length), max(0, len(latest) - LANES), summary)


def _end(each: Span, now: float) -> float:
    return now if each.until is None else each.until


def _piece(kind: str, each: Span, begin: float, now: float) -> Piece:
    scale = WIDTH / (now - begin)
    width = max(_NARROWEST, (_end(each, now) - max(begin, each.since)) * scale)
    # What began only now, or in the future of another clock, is seen at the end of its lane.
    x = min(max(0.0, (each.since - begin) * scale), WIDTH - _NARROWEST)
    how = each.ending.value or ("holds it" if kind == "hold" else "waits")
    title = f"{who(each.holder)}: {kind} of {span(each.lasted(now))}, {how}"
    bad = each.ending.bad
    return Piece(round(x, 1), round(min(width, WIDTH - x), 1), kind, bad, each.until is None, title)


class HistogramRow(NamedTuple):
    """One bar of a histogram."""

    label: str
    width: float
    number: int


def bars(values: Sequence[float]) -> list[HistogramRow]:
    """How long things took, from short to long."""
    found = histogram(values)
    most = max((each.number for each in found), default=1)
    return [
        HistogramRow(_range(each), round(WIDTH * each.number / most, 1), each.number)
        for each in found
    ]


def _range(bar: Bar) -> str:
    if bar.low == 0.0:
        return f"below {span(bar.high)}"
    if bar.high == float("inf"):
        return f"{span(bar.low)} and more"
    return f"{span(bar.low)} to {span(bar.high)}"


def curve(values: Iterable[float], width: float = 100.0, height: float = 24.0) -> str:
    """The points of a small line, for a polyline."""
    found = list(values)[-60:]
    if len(found) < 2:
        return ""
    top = max(found) or 1.0
    step = width / (len(found) - 1)
    points = (
        f"{at * step:.1f},{height - 1 - (height - 2) * value / top:.1f}"
        for at, value in enumerate(found)
    )
    return " ".join(points)
