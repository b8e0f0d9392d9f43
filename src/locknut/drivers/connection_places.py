"""How many connections there may be at a time, and who waits for one of them: first come, first
served.

An interrupt (Ctrl-C) may come at any moment. So whoever wants a place makes it before anything
else, and gives it back whatever has become of it: nothing depends on how far it came.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from threading import Lock

from locknut.runtimes.threads import Guard


class Place:
    """One of them, or the wish for one."""

    __slots__ = ("ready",)

    def __init__(self) -> None:
        self.ready: Lock | None = None
        """Released when it is given out; None: nobody waits."""


class Places:
    """For many threads."""

    def __init__(self, most: int):
        self._most = most
        self._guard = Guard()
        self._taken: set[Place] = set()
        self._wanted: deque[Place] = deque()

    def all_taken(self) -> bool:
        return len(self._taken) >= self._most

    def occupy(self, place: Place, seconds: float) -> bool:
        """Wait until it is given out. Whatever comes of it, the caller has to `vacate` it."""
        with self._guard:
            if not self._wanted and len(self._taken) < self._most:
                self._taken.add(place)
                return True
            place.ready = ready = Lock()
            ready.acquire()
            self._wanted.append(place)
            self._give_out()
        return ready.acquire(timeout=seconds)

    def vacate(self, place: Place) -> None:
        """Can be asked for again."""
        with self._guard:
            if place.ready is not None:
                with suppress(ValueError):
                    self._wanted.remove(place)
            self._taken.discard(place)
            if self._wanted:
                self._give_out()

    def _give_out(self) -> None:
        while self._wanted and len(self._taken) < self._most:
            place = self._wanted[0]
            self._taken.add(place)
            if place.ready is not None:
                with suppress(RuntimeError):  # an interrupt came before it was taken out
                    place.ready.release()
            self._wanted.popleft()
