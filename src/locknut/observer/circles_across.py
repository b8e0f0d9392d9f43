"""Deadlocks that lead through several places: found in the listings that were made of each of them.

Each place is listed at a time of its own. A hold or a wait that two listings of its place show in
the same way was there all the time between them. So a circle counts when every place that it leads
through has been listed anew since the circle was first seen: then all of it was there at that
moment. Nothing is asked of an engine for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from locknut.cli.messages import plain
from locknut.core.wait_circles import graph_of
from locknut.observer.place_observer import PlaceObserver
from locknut.observer.sightings import Concern, Picture, Weight
from locknut.waits import Edge


class AcrossMember(NamedTuple):
    """One of those that wait for each other."""

    who: str
    lock: str
    """What it waits for."""
    at: str
    """The short name of the place of that lock."""
    fence: int | None
    """Of the hold that is in its way."""
    party: str
    """Who it is, for comparing."""


AcrossCycle = tuple[AcrossMember, ...]


class CirclesAcross:
    """Of all places that one dashboard shows, by their short names."""

    def __init__(self, observers: Mapping[str, PlaceObserver]) -> None:
        self._observers = observers
        self._guard = threading.Lock()
        self._seen: dict[AcrossCycle, float] = {}
        """Since when each circle was in all that was seen, confirmed or not."""
        self.cycles: Sequence[AcrossCycle] = ()

    def look(self) -> None:
        """At the last listing of each place; any observer's thread may call it after a listing."""
        with self._guard:
            pictures = {at: each.picture for at, each in self._observers.items()}
            now, found = time.monotonic(), _circles(pictures)
            self._seen = {each: self._seen.get(each, now) for each in found}
            self.cycles = [
                cycle
                for cycle, since in self._seen.items()
                if all(pictures[member.at].began > since for member in cycle)
            ]

    def concerns(self, at: str = "") -> list[tuple[str, Concern]]:
        """Of the circles that lead through this place, or of all; each with the place of the lock
        that it names.
        """
        return [
            (cycle[0].at, self._concern(cycle))
            for cycle in self.cycles
            if at in {"", *(member.at for member in cycle)}
        ]

    def _concern(self, cycle: AcrossCycle) -> Concern:
        names = " -> ".join(plain(each.lock) for each in (*cycle, cycle[0]))
        members = ", ".join(
            f"{each.who} waits for {plain(each.lock)} in {self._observers[each.at].place}"
            for each in cycle
        )
        places = len({each.at for each in cycle})
        title = f"is in a deadlock of {len(cycle)} through {places} places: {names}"
        return Concern(Weight.TROUBLE, "deadlock", title, members, cycle[0].lock)


def _circles(pictures: Mapping[str, Picture]) -> list[AcrossCycle]:
    """Those that lead through more than one place; a place that does not answer has none."""
    waited_for = {
        at: [info for info in picture.locks if info.waiters]
        for at, picture in pictures.items()
        if not picture.problem
    }
    if sum(map(bool, waited_for.values())) < 2:
        return []
    circles = [tuple(map(_member, each.edges)) for each in graph_of(waited_for).deadlocks]
    return [each for each in circles if len({member.at for member in each}) > 1]


def _member(edge: Edge) -> AcrossMember:
    return AcrossMember(str(edge.waiter), edge.lock, edge.place, edge.fence, edge.waiter.id)
