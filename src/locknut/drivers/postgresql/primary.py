"""Which of several servers is the one that takes writes, as all connections of an engine know it.

Callers and the keeper have connections of their own. They must not talk to different servers: what
one was granted, the other would renew elsewhere. So whoever reaches another server tells the rest,
and an answer of a server that was left does not count any more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakMethod


class Primary:
    """The server that was reached last, and what is known of it."""

    def __init__(self, *, pooled: bool = False) -> None:
        self._mutex = threading.RLock()
        self._place: bytes | None = None
        self._timeline = ""
        self.way = 0
        """Which of the ways in the URL led there. It is tried first: a server that is silent, or
        whose name nobody knows, costs nothing after the first time."""
        self.epoch = 0
        """Another one whenever the server is another."""
        self.pooled = pooled
        """Whether a proxy is between that gives each transaction any session of the server."""
        self._on_change: list[WeakMethod[Callable[[], None]]] = []

    def follow(self, changed: Callable[[], None]) -> None:
        """Have this bound method called, on any thread, when something here is another."""
        with self._mutex:
            self._on_change = [each for each in self._on_change if each() is not None]
            self._on_change.append(WeakMethod(changed))

    def reached(self, place: bytes, timeline: str) -> bool:
        """Note that this server takes writes. False, if it was succeeded by another: a promotion
        begins a new timeline, and who is on an older one does not know of it.
        """
        with self._mutex:
            if timeline < self._timeline:
                return False
            self._timeline = timeline
            moved = self._place not in (None, place)
            self._place = place
            if moved:
                self.epoch += 1
        if moved:
            self._tell()
        return True

    def is_pooled(self) -> None:
        """A proxy was found."""
        if not self.pooled:
            self.pooled = True
            self._tell()

    def _tell(self) -> None:
        for each in list(self._on_change):
            changed = each()
            if changed is not None:
                changed()
