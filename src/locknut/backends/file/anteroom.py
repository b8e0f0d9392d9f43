"""Where those of one process who want the same name wait, beyond a few: without any descriptor.

A place in the kernel's line costs a descriptor, and a bell another one. So only a few waiters of
one process and name stand in the line; the others are called in as places become free, in the order
in which they came. Each one keeps the moment at which it came, and takes its place in the line by
that moment, before everybody who came later.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from locknut.backends.file.files import Which
    from locknut.backends.file.places import Place

IN_LINE: Final = 8
"""So many waiters of one process and name stand in the kernel's line."""

ELSEWHERE: Final = 0
OUTSIDE: Final = 1
INSIDE: Final = 2
"""Where a claim is counted: nowhere, in the anteroom, or in the line."""


class _Room:
    __slots__ = ("inside", "waiting")

    def __init__(self) -> None:
        self.inside = 0
        self.waiting: dict[str, Place] = {}


class Anteroom:
    """All names of one directory. A place's mutex may be held when this one is taken."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._rooms: dict[Which, _Room] = {}

    def go_in(self, place: Place) -> bool:
        """Whether this claim may stand in line; else it waits here until it is called."""
        with self._mutex:
            if place.counted == INSIDE:
                return True
            room = self._rooms.setdefault(place.which, _Room())
            first = next(iter(room.waiting), None)
            if room.inside < IN_LINE and first in (None, place.claim.id):
                room.waiting.pop(place.claim.id, None)
                self._count_in(room, place)
                return True
            room.waiting[place.claim.id] = place
            place.counted = OUTSIDE
            return False

    def leave(self, place: Place) -> None:
        """This claim holds the lock by now, or gave up."""
        with self._mutex:
            room = self._rooms.get(place.which)
            if room is None or place.counted == ELSEWHERE:
                return
            if place.counted == INSIDE:
                room.inside -= 1
            room.waiting.pop(place.claim.id, None)
            place.counted = ELSEWHERE
            if not room.inside and not room.waiting:
                del self._rooms[place.which]

    def call(self, which: Which) -> Place | None:
        """The next one, who may stand in line from now on."""
        with self._mutex:
            room = self._rooms.get(which)
            if room is None or room.inside >= IN_LINE or not room.waiting:
                return None
            place = room.waiting.pop(next(iter(room.waiting)))
            self._count_in(room, place)
            return place

    def _count_in(self, room: _Room, place: Place) -> None:
        room.inside += 1
        place.counted = INSIDE
