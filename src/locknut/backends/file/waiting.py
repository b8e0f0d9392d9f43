"""What a refused claim does before it sleeps: tell people, look who holds, and choose its net."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from locknut.backends.file import layout, line, slots
from locknut.backends.file.files import LockFile
from locknut.backends.file.identity import Identity
from locknut.backends.file.layout import EXCLUSIVE, RECORD, WAITER_ROOM, WAITERS, WAITING, Record
from locknut.backends.file.outcomes import Orphaned
from locknut.backends.file.places import Place

_FIRST: Final = (0.1, 0.05)
"""Seconds to the first look without a ring; then twice as long each time ..."""
_LONGEST: Final = (1.0, 0.2)
"""... up to these, for the first in line (it watches the holder's process) and the second (the
first may get the lock and die with nobody to ring us)."""
_FAR: Final = 3.0
_SPREAD_NS: Final = 1_000_000_000
"""The others look after 3 to 4 seconds, by what their ticket says, so not all at once: a hundred of
them are a hundred processes woken for nothing, however often the lock changes hands meanwhile."""
_MOST_SLOTS: Final = 64
_ROOMS_TRIED: Final = 16


def settle(place: Place, me: Identity) -> bool:
    """Get ready to sleep; False if a holder is seen to be gone, so that asking again is better."""
    file, ticket = place.file, place.ticket
    if file.dead():
        raise Orphaned  # what is in the way holds nothing any more
    if ticket is None:
        return True
    before = line.ahead(file.fd, ticket)
    if before > 1:
        place.net = _FAR + ticket % _SPREAD_NS / 1e9
        return True
    last = file.glance()
    changed = last.raw != place.known
    place.known = last.raw
    place.net = _FIRST[before] if changed else min(place.net * 2, _LONGEST[before])
    bell = place.bell
    if before or bell is None:
        return True
    return bell.follow(_pids(file, last, me), anew=changed)


class Teller:
    """Writes down who waits, in a room by ticket."""

    __slots__ = ("_me", "_patience", "_place")

    def __init__(self, place: Place, me: Identity) -> None:
        self._place = place
        self._me = me
        self._patience = 0 if place.former else _ROOMS_TRIED

    def __call__(self, ticket: int) -> bool:
        """False if somebody else who waits is written down there: another moment has another room.

        Where most rooms are taken we write over him: a hundred waiters shall not look for room all
        day, and who keeps his place from a former file has no other moment.
        """
        place, at = self._place, _waiter_at(ticket)
        fd = place.file.fd
        if self._patience:
            self._patience -= 1
            other = layout.number(os.pread(fd, RECORD, at))
            if other and line.waits(fd, other):
                return False
        told = place.stamp if place.mode == EXCLUSIVE else place.told
        with suppress(OSError):  # for people only: a full disk keeps nobody from waiting
            os.pwrite(fd, told(WAITING, ticket, time.time_ns(), self._me), at)
        return True


def waiter(fd: int, ticket: int) -> Record | None:
    """Who has this ticket, if he was not written over."""
    record = layout.decode(os.pread(fd, RECORD, _waiter_at(ticket)))
    return record if record is not None and record.raw == ticket else None


def _waiter_at(ticket: int) -> int:
    return WAITERS + ticket % WAITER_ROOM * RECORD


def _pids(file: LockFile, last: Record, me: Identity) -> set[int]:
    """The holders' processes, as far as their pids mean anything here."""
    if last.mode == EXCLUSIVE:
        records = [last]
    else:
        table = slots.table(file.fd)[:_MOST_SLOTS]
        records = [one for slot, one in enumerate(table) if one and slots.taken(file.fd, slot)]
    return {one.pid for one in records if one.pid_space == me.pid_space and one.boot == me.boot} - {
        me.pid
    }
