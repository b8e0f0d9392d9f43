"""Virtual time, one seed, one step after the other: what makes a run repeatable."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulation.checker.history import Event, Kind
from tests.simulation.process import Clock, Process

if TYPE_CHECKING:
    from tests.simulation.coroutines import Task

SPINNING = 100_000
"""More steps at one moment than this are an endless loop."""

_Entry = tuple[float, float, int, list[Callable[[], None]]]


class World:
    """Everything that happens in one run, in the order in which it happens."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.history: list[Event] = []
        self.faults: Counter[str] = Counter()
        """How often each kind of fault really happened."""
        self.seen: Counter[str] = Counter()
        """How often the core said that something happened."""
        self.current: Task | None = None
        self.guards_held = 0
        self.servers: dict[str, Any] = {}
        """By the name of their host, where processes look them up."""
        self._heap: list[_Entry] = []
        self._order = count()

    def process(self, name: str, *, drift: float = 0.0) -> Process:
        """A new process with a clock that runs wrong by at most `drift`, from any zero."""
        rate = 1 + self.random.uniform(-drift, drift)
        return Process(self, name, Clock(self.random.uniform(0, 1000), rate))

    def at(self, t: float, call: Callable[[], None]) -> Callable[[], None]:
        """Do it at that time; returns how to call it off. Ties are broken by the seed."""
        cell = [call]
        entry = (max(t, self.now), self.random.random(), next(self._order), cell)
        heapq.heappush(self._heap, entry)
        return cell.clear

    def after(self, delay: float, call: Callable[[], None]) -> Callable[[], None]:
        return self.at(self.now + delay, call)

    def soon(self, call: Callable[[], None]) -> None:
        self.at(self.now, call)

    def tell(
        self, who: str, kind: Kind, name: str = "", hold: str = "", **more: Any
    ) -> None:  # an Event's fields
        """Put an event into the history."""
        self.history.append(Event(self.now, who, kind, name, hold, **more))

    def run(self, until: float) -> None:
        """Go on until nothing is left to do, or that time."""
        steps = 0
        while self._heap and self._heap[0][0] <= until:
            t, _, _, cell = heapq.heappop(self._heap)
            steps = steps + 1 if t == self.now else 0
            if steps > SPINNING:
                raise AssertionError(
                    f"something spins at {t}: {SPINNING} steps, and no time passes"
                )
            self.now = t
            if cell:
                cell[0]()
        self.now = max(self.now, until)

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.random.random() < probability

    def no_guard_is_held(self, who: str) -> None:
        if self.guards_held:
            raise AssertionError(f"{who} was suspended or ended while it held a guard")
