"""The holds and waits that were seen of each name: how many are kept, and what is forgotten first.

Names come and go without end, so there is a bound for all of them together. What is forgotten is
the name that changed least recently.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator

from locknut.core.families import family
from locknut.observer.quantiles import quantile
from locknut.observer.sightings import Ending, Span

PER_NAME = 80
"""Spans of each kind that are kept of one name: what a timeline can show."""
IN_ALL = 40_000


class NameHistory:
    """The last holds and waits of one name that are over. Most names have one or two: in lists, of
    which an empty one is ten times smaller than an empty deque.
    """

    __slots__ = ("holds", "waits")

    def __init__(self) -> None:
        self.holds: list[Span] = []
        self.waits: list[Span] = []

    def __len__(self) -> int:
        return len(self.holds) + len(self.waits)


class SpanHistory:
    """Of all names."""

    def __init__(self, most: int = IN_ALL) -> None:
        self._most = most
        self._names: OrderedDict[str, NameHistory] = OrderedDict()
        self._families: dict[str, deque[float]] = {}
        self._usual: dict[str, tuple[float, int]] = {}
        self._count = 0
        self.recent_waits: deque[Span] = deque(maxlen=2000)

    def __len__(self) -> int:
        return self._count

    def add_hold(self, span: Span) -> None:
        """One that is over."""
        self._keep(span, self._of(span.name).holds)
        if span.until is not None and not span.ending.bad:
            lasted = self._families.setdefault(family(span.name), deque(maxlen=PER_NAME))
            lasted.append(span.until - span.since)
            self._usual.clear()
            if len(self._families) > self._most // PER_NAME:
                del self._families[next(iter(self._families))]

    def add_wait(self, span: Span) -> None:
        """One that is over."""
        self._keep(span, self._of(span.name).waits)
        self.recent_waits.append(span)

    def of(self, name: str) -> NameHistory:
        return self._names.get(name) or NameHistory()

    def usual_hold(self, kind: str) -> tuple[float, int]:
        """The 95th percentile of the holds of a family, and how many there were."""
        if kind not in self._usual:  # thousands of holds ask for it in a row
            lasted = list(self._families.get(kind, ()))
            self._usual[kind] = quantile(lasted, 0.95) or 0.0, len(lasted)
        return self._usual[kind]

    def waits_since(self, then: float) -> Iterator[Span]:
        """Those that were over at `then` or later."""
        for each in reversed(self.recent_waits):
            if each.until is None or each.until < then:
                return
            yield each

    def waited(self, then: float) -> list[float]:
        """Seconds that each wait took which ended in a grant since `then`."""
        return [
            each.lasted(then) for each in self.waits_since(then) if each.ending is Ending.GRANTED
        ]

    def _of(self, name: str) -> NameHistory:
        found = self._names.setdefault(name, NameHistory())
        self._names.move_to_end(name)
        return found

    def _keep(self, span: Span, spans: list[Span]) -> None:
        spans.append(span)
        self._count += 1
        if len(spans) > PER_NAME:
            del spans[0]
            self._count -= 1
        while self._count > self._most and len(self._names) > 1:
            _, forgotten = self._names.popitem(last=False)
            self._count -= len(forgotten)
