"""The line of waiters in a lock file: tickets, who waits with them, and how long each one sleeps.

1. *Tickets.* Every waiter locks one byte, its ticket, at the offset of the time when it came. The
   kernel keeps the line, so there are no ghosts: the ticket of a killed waiter goes with it.
2. *Order.* A writer enters by locking everything from the lock up to its ticket, so the kernel
   refuses it while anybody in front of it conflicts. The tickets of readers are read locks: readers
   pass each other, and never a writer that came before them.
3. *Names.* A waiter writes down who it is before it takes its ticket, for people who inspect the
   lock. These records decide nothing.
4. *Sleep.* A refused claim that goes to sleep is woken by its bell. `settle` decides how long it
   sleeps if no bell rings, and which processes the first in line watches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from locknut.backends.file import file_layout, holder_slots
from locknut.backends.file.claim_state import ClaimState
from locknut.backends.file.file_layout import (
    EXCLUSIVE,
    LOCK,
    QUEUE,
    RECORD,
    WAITER_ROOM,
    WAITERS,
    WAITING,
    Record,
)
from locknut.backends.file.lock_files import LockFile
from locknut.backends.file.ofd_locks import (
    END,
    READ,
    WRITE,
    LockedRange,
    asked,
    drop,
    in_the_way,
    in_the_way_asked,
    start_in_the_way,
    take,
)
from locknut.backends.file.outcomes import Crowded, Orphaned
from locknut.backends.file.this_process import ProcessIdentity, monotonic_clock

ANYBODY: Final = asked(WRITE, QUEUE, END)
_JOINS: Final = 300
_FIRST: Final = (0.1, 0.05)
"""Seconds until a waiter looks by itself for the first time; then twice as long each time ..."""
_LONGEST: Final = (1.0, 0.2)
"""... up to these, for the first in line (it watches the holder's process) and the second (the
first may get the lock and die with nobody to ring us)."""
_FAR: Final = 3.0
_SPREAD_NS: Final = 1_000_000_000
"""The others look after 3 to 4 seconds, spread by their tickets: otherwise a hundred processes
would wake for nothing at once, however often the lock changes hands meanwhile."""
_MOST_SLOTS: Final = 64
_ROOMS_TRIED: Final = 16


def _nameless(_ticket: int) -> bool:
    """Nobody has to know who took the ticket."""
    return True


def now_ticket() -> int:
    return QUEUE + monotonic_clock()


def came_at(ticket: int) -> int:
    """When the owner of this ticket came, in nanoseconds of the monotonic clock."""
    return ticket - QUEUE


def join(
    fd: int, kind: int, former: int | None = None, write_name: Callable[[int], bool] = _nameless
) -> int:
    """Take the last ticket of the line, or the one that this claim had in a former file if it is
    free.

    If the locked range of a later waiter covers that moment, or there is no room to write down who
    came then, take the next moment. The name is written first, so nobody who inspects the lock sees
    a ticket without a name.
    """
    ticket = former or now_ticket()
    for _ in range(_JOINS):
        if write_name(ticket):
            if take(fd, kind, ticket, 1):
                return ticket
            os.sched_yield()
        ticket = now_ticket()
    raise Crowded


def leave(fd: int) -> None:
    drop(fd, QUEUE, END)


def first(fd: int) -> LockedRange | None:
    """Return the lowest ticket of others. The kernel names any conflict, so we narrow the range
    down.
    """
    found = in_the_way_asked(fd, ANYBODY)
    return None if found is None else _lowest(fd, QUEUE, END, found)


def before(fd: int, ticket: int) -> LockedRange | None:
    """Return the lowest ticket of others if it is lower than this one of theirs; else None."""
    if ticket > QUEUE and start_in_the_way(fd, asked(WRITE, QUEUE, ticket - QUEUE)) is None:
        return None
    head = first(fd)
    return None if head is None or head.start == ticket else head


def after(fd: int, ticket: int) -> LockedRange | None:
    """Return the next ticket of others behind this one."""
    found = in_the_way(fd, WRITE, ticket + 1, END)
    return None if found is None else _lowest(fd, ticket + 1, END, found)


def walk(fd: int) -> Iterator[LockedRange]:
    """Yield all tickets of others, in order."""
    ticket = QUEUE - 1
    while (found := after(fd, ticket)) is not None:
        yield found
        ticket = found.start


def waits(fd: int, ticket: int) -> bool:
    """Return whether somebody else has this ticket; a holder's range may cover one given up."""
    return start_in_the_way(fd, asked(WRITE, ticket, 1)) == ticket


def ahead(fd: int, ticket: int) -> int:
    """Return how many wait before this ticket: 0, 1, or 2 for more."""
    lowest = _lowest_in(fd, QUEUE, ticket)
    if lowest is None:
        return 0
    return 1 if _lowest_in(fd, lowest.start + 1, ticket, any_one=True) is None else 2


def free_before(fd: int, ticket: int) -> bool:
    """Whether nobody of any kind waits before this ticket."""
    return in_the_way(fd, WRITE, QUEUE, ticket - QUEUE) is None


def empty(fd: int) -> bool:
    return in_the_way_asked(fd, ANYBODY) is None


def lock_kind(fd: int) -> int | None:
    """How the lock itself is held by others: READ, WRITE, or None for free."""
    found = in_the_way(fd, WRITE, LOCK, 1)
    return None if found is None else found.kind


def may_enter(fd: int, head: LockedRange) -> bool:
    """Whether ringing this head of the line is worth it."""
    kind = lock_kind(fd)
    return kind is None or (kind == READ and head.kind == READ)


def _lowest_in(fd: int, low: int, high: int, *, any_one: bool = False) -> LockedRange | None:
    if low >= high:
        return None
    found = in_the_way(fd, WRITE, low, high - low)
    if found is None or (any_one and found.start >= QUEUE):
        return found
    return _lowest(fd, low, high, found)


def _lowest(fd: int, low: int, high: int, found: LockedRange | None) -> LockedRange | None:
    best: LockedRange | None = None
    while found is not None:
        if found.start < QUEUE:
            low = found.end  # a holder that came through the line has it locked up to its ticket
        else:
            best, high = found, found.start
        if (high != END and low >= high) or low >= 2**63 - 1:
            break
        found = in_the_way(fd, WRITE, low, high - low if high != END else END)
    return best


def settle(state: ClaimState, me: ProcessIdentity) -> bool:
    """Get ready to sleep; return False if a holder turns out to be gone, so the claim asks
    again.
    """
    file, ticket = state.file, state.ticket
    if file.dead():
        raise Orphaned  # what is in the way holds nothing any more
    if ticket is None:
        return True
    in_front = ahead(file.fd, ticket)
    if in_front > 1:
        state.net = _FAR + ticket % _SPREAD_NS / 1e9
        return True
    last = file.glance()
    changed = last.raw != state.known
    state.known = last.raw
    state.net = _FIRST[in_front] if changed else min(state.net * 2, _LONGEST[in_front])
    bell = state.bell
    if in_front or bell is None:
        return True
    return bell.follow(_pids(file, last, me), anew=changed)


class NameWriter:
    """Writes down who waits, in one of 64 rooms that the ticket chooses."""

    __slots__ = ("_me", "_patience", "_state")

    def __init__(self, state: ClaimState, me: ProcessIdentity) -> None:
        self._state = state
        self._me = me
        self._patience = 0 if state.former else _ROOMS_TRIED

    def __call__(self, ticket: int) -> bool:
        """Return False if another waiter is written down there: another moment has another room.

        Where most rooms are taken, we write over the other waiter: a hundred waiters must not look
        for room all day, and a waiter that keeps its ticket from a former file cannot choose.
        """
        state, at = self._state, _waiter_at(ticket)
        fd = state.file.fd
        if self._patience:
            self._patience -= 1
            other = file_layout.number(os.pread(fd, RECORD, at))
            if other and waits(fd, other):
                return False
        encode = state.encode_exclusive if state.mode == EXCLUSIVE else state.encode
        with suppress(OSError):  # for people only: a full disk keeps nobody from waiting
            os.pwrite(fd, encode(WAITING, ticket, time.time_ns(), self._me), at)
        return True


def waiter_record(fd: int, ticket: int) -> Record | None:
    """Return who has this ticket, if the record was not written over."""
    record = file_layout.decode(os.pread(fd, RECORD, _waiter_at(ticket)))
    return record if record is not None and record.raw == ticket else None


def _waiter_at(ticket: int) -> int:
    return WAITERS + ticket % WAITER_ROOM * RECORD


def _pids(file: LockFile, last: Record, me: ProcessIdentity) -> set[int]:
    """Return the pids of the holders, as far as pids of their namespace mean anything here."""
    if last.mode == EXCLUSIVE:
        records = [last]
    else:
        table = holder_slots.table(file.fd)[:_MOST_SLOTS]
        records = [
            one for slot, one in enumerate(table) if one and holder_slots.taken(file.fd, slot)
        ]
    return {one.pid for one in records if one.pid_space == me.pid_space and one.boot == me.boot} - {
        me.pid
    }
