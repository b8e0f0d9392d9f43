"""When each hold must be looked at next, kept so that a lock that comes and goes leaves nothing."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from itertools import chain, count, islice, takewhile
from typing import TYPE_CHECKING

from locknut.core.holding import NEW
from locknut.core.runtime_port import NEVER

if TYPE_CHECKING:
    from locknut.core.holding import Hold

BATCH = 500
"""How many holds are renewed in one round trip at the most."""
EARLY = 0.1
"""A hold that is due within this share of its delay is taken along: one round trip for all."""
FEW = 100
"""How many entries of the heap may be stale before it is tidied, and how many holds are looked at
for new ones."""


class Timetable:
    """Which hold is due when. Adding and removing are O(1) and leave nothing behind.

    Holds that wait equally long become due in the order they came, so each distinct delay has a
    plain FIFO; only the irregular ones (a retry, the rest of a max_hold) need the heap. It is an
    OrderedDict, because a dict is slow to find its first when those before it were taken out. An
    interrupt (Ctrl-C) may leave an empty FIFO behind, but never a hold whose time is not known:
    nobody behind it would be due.
    """

    __slots__ = ("_fifos", "_heap", "_order", "_tidy_at", "asleep_until")

    def __init__(self) -> None:
        self._fifos: dict[float, OrderedDict[Hold, None]] = {}
        self._heap: list[tuple[float, int, Hold]] = []
        self._order = count()
        self.asleep_until = NEVER
        self._tidy_at = FEW

    def add(self, hold: Hold, start: float, delay: float, slack: float = 0.0) -> bool:
        """Put it in; True if the keeper must be woken to be in time.

        It may be looked at later by `slack`, to share the FIFO of its fellows.
        """
        due = start + delay
        fifo = self._fifos.get(delay)
        if fifo is None:
            fifo = self._fifos.setdefault(delay, OrderedDict())
        elif fifo:
            last = next(reversed(fifo)).due
            if due + slack < last:
                return self.add_once(hold, due)
            due = max(due, last)
        hold.due = due
        hold.bucket = delay
        fifo[hold] = None
        return self._earlier(due)

    def add_once(self, hold: Hold, due: float) -> bool:
        """The same for a moment that no other hold will share."""
        hold.due = due
        hold.bucket = None
        heapq.heappush(self._heap, (due, next(self._order), hold))
        if len(self._heap) > self._tidy_at:
            self._tidy()
        return self._earlier(due)

    def _tidy(self) -> None:
        """Drop the stale entries: of holds that are over, and of those that got another date."""
        self._heap = [entry for entry in self._heap if entry[0] == entry[2].due]
        heapq.heapify(self._heap)
        self._tidy_at = max(FEW, 2 * len(self._heap))

    def _earlier(self, due: float) -> bool:
        if due >= self.asleep_until:
            return False
        self.asleep_until = due
        return True

    def stir(self) -> float:
        """From now on every new hold wakes the keeper; returns until when it meant to sleep."""
        promised, self.asleep_until = self.asleep_until, NEVER
        return promised

    def rest(self, now: float, promised: float = NEVER) -> float:
        """When the keeper must look again; it may sleep until then.

        Once woken for a hold it will look when that one is due, even if it was released meanwhile:
        otherwise each of many short holds would wake the keeper anew.
        """
        until = self.next_due()
        if now < promised:
            until = min(until, promised)
        self.asleep_until = until
        return until

    def remove(self, hold: Hold) -> None:
        delay = hold.bucket
        fifo = self._fifos.get(delay) if isinstance(delay, float) else None
        if fifo is not None:
            fifo.pop(hold, None)  # first: a head without a time would keep those behind it
        hold.due, hold.bucket = NEVER, None  # a heap entry whose time is not the hold's is stale
        if fifo is not None and not fifo:
            del self._fifos[delay]  # type: ignore[arg-type]  # a float, or there was no fifo

    def pop_due(self, now: float, most: int = BATCH) -> list[Hold]:
        """Those whose time has come, and if there is one, those whose time is near."""
        due: list[Hold] = []
        while len(due) < most and self._heap and self._heap[0][0] <= now:
            time, _, hold = heapq.heappop(self._heap)
            if hold.due == time:
                self.remove(hold)  # at once: it may stand there twice, with the same time
                due.append(hold)
        near: list[Hold] = []
        if due or self.next_due() <= now:
            for delay, fifo in self._fifos.items():
                soon = now + delay * EARLY
                for hold in islice(fifo, most - len(due) - len(near)):
                    if hold.due > soon:
                        break
                    near.append(hold)
        for hold in near:
            self.remove(hold)
        return due + near

    def next_due(self) -> float:
        while self._heap and self._heap[0][0] != self._heap[0][2].due:
            heapq.heappop(self._heap)
        heads = [next(iter(fifo)).due for fifo in self._fifos.values() if fifo]
        return min([*heads, self._heap[0][0]] if self._heap else heads, default=NEVER)


def _is_new(hold: Hold) -> bool:
    return hold.bucket is NEW


def newest(holds: dict[str, Hold]) -> list[Hold]:
    """Those at the end that the keeper has not seen yet, the newest first.

    As many are looked at as there are new ones, and not all: each batch of renewals looks, so that
    a copy of all would cost the square of their number.
    """
    most = FEW
    while True:
        # One call from beginning to end, in which no other thread can change the dict: the iterator
        # is made inside of it.
        backwards = chain.from_iterable(map(reversed, [holds.values()]))
        new = list(takewhile(_is_new, list(islice(backwards, most))))
        if len(new) < most:
            return new
        most *= 2
