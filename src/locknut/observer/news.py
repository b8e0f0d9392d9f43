"""What the engine's history tells while an observer looks: holds that others broke or lost, and how
often locks are acquired.

A listing cannot tell a break from a release. Whoever broke or lost the hold wrote it down, if it
keeps history, a second or two later; by then a listing may have shown that the hold is over. So the
news come with each listing, and put right what was concluded before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from locknut import HistoryEntry
from locknut.observer.acquisitions import Acquisitions
from locknut.observer.sightings import Ending

if TYPE_CHECKING:
    from collections import deque

    from locknut.observer.sightings import Happening, Span

LATE: Final = 30.0
"""Seconds that an entry may be late: a writer that fails tries again at most so long after."""
KNOWN: Final = 4000
"""Entries that are remembered, so that none is told twice."""
ENDINGS: Final = {"broken": Ending.BROKEN, "lost": Ending.LOST}


def ending_of(entry: HistoryEntry) -> Ending:
    """The holder of a lock that was broken writes that it lost it, and may write first."""
    return Ending.BROKEN if entry.reason.startswith("broken") else ENDINGS[entry.kind]


class NewsReader:
    """Reads on from where it read last, and finds what is new."""

    def __init__(self) -> None:
        self.acquisitions = Acquisitions()
        self._known: dict[str, None] = {}
        self._read_at: float | None = None
        """On the monotonic clock; None where nothing is to be had."""

    def begin(self, *, readable: bool) -> None:
        """A history that cannot be read is left alone: asked for again and again, it would fill
        the log of a server.
        """
        if not readable:
            self._read_at = None
        elif self._read_at is None:
            self._read_at = time.monotonic()

    def read(self, ask: Callable[[float], Sequence[HistoryEntry] | None]) -> Sequence[HistoryEntry]:
        """What was written lately, by `ask`, which is told how many seconds that is."""
        now, before = time.monotonic(), self._read_at
        found = None if before is None else ask(now - before + LATE)
        if found is None:
            return ()
        self._read_at = now
        self.acquisitions.take_in(found, now)
        return found

    def fresh(self, entries: Iterable[HistoryEntry], began: float) -> Iterator[HistoryEntry]:
        """Those about holds that ended badly since then, each once."""
        for each in entries:
            if each.kind not in ENDINGS or each.time < began or each.id in self._known:
                continue
            self._known[each.id] = None
            while len(self._known) > KNOWN:
                del self._known[next(iter(self._known))]
            yield each


def is_of(span: Span, name: str, fence: int) -> bool:
    """Whether this is the hold with that fence, which may count hand-overs too."""
    return span.name == name and span.holder.raw == fence // span.holder.fence_step


def put_right(spans: list[Span], name: str, fence: int, ending: Ending, note: str) -> Span | None:
    """Change how a hold of these ended, and return it."""
    for at, each in enumerate(spans):
        if is_of(each, name, fence):
            spans[at] = each._replace(ending=ending, note=note)
            return spans[at]
    return None


def tells(happenings: Iterable[Happening], entry: HistoryEntry) -> bool:
    """Whether this was heard before: whoever broke a lock itself need not read of it."""
    wanted = entry.kind, entry.name, entry.fence
    return any((each.kind, each.name, each.fence) == wanted for each in happenings)


def retract(happenings: deque[Happening], name: str, fence: int | None) -> None:
    """The end of this hold was not what was said of it."""
    for at, each in enumerate(happenings):
        if (each.kind, each.name, each.fence) == (Ending.RELEASED.value, name, fence):
            del happenings[at]
            return
