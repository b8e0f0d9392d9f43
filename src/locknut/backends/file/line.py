"""The waiters' line: every waiter locks one byte, its ticket, at the time it came.

The kernel keeps the line, so there are no ghosts: a killed waiter's ticket goes with it. A writer
enters by locking everything from the lock to its ticket: refused while anybody before it conflicts.
Readers' tickets are read locks, so readers pass each other and never a writer that came before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

from locknut.backends.file.identity import monotonic_clock
from locknut.backends.file.kernel import (
    END,
    READ,
    WRITE,
    Span,
    asked,
    drop,
    in_the_way,
    in_the_way_asked,
    start_in_the_way,
    take,
)
from locknut.backends.file.layout import LOCK, QUEUE
from locknut.backends.file.outcomes import Crowded

ANYBODY: Final = asked(WRITE, QUEUE, END)
_JOINS: Final = 300


def _nobody(_ticket: int) -> bool:
    """To be told."""
    return True


def now_ticket() -> int:
    return QUEUE + monotonic_clock()


def came_at(ticket: int) -> int:
    """When the owner of this ticket came, in nanoseconds of the monotonic clock."""
    return ticket - QUEUE


def join(
    fd: int, kind: int, former: int | None = None, tell: Callable[[int], bool] = _nobody
) -> int:
    """Take the last place, or the one had in the line of a former file if it is still to be had.

    Where the range of somebody who came later covers the moment, or there is no room left to say
    who came then, take the next moment. Who it is, is told before: nobody who looks sees a ticket
    without a name.
    """
    ticket = former or now_ticket()
    for _ in range(_JOINS):
        if tell(ticket):
            if take(fd, kind, ticket, 1):
                return ticket
            os.sched_yield()
        ticket = now_ticket()
    raise Crowded


def leave(fd: int) -> None:
    drop(fd, QUEUE, END)


def first(fd: int) -> Span | None:
    """The lowest ticket of others. The kernel tells any conflict, so narrow until none is lower."""
    found = in_the_way_asked(fd, ANYBODY)
    return None if found is None else _lowest(fd, QUEUE, END, found)


def before(fd: int, ticket: int) -> Span | None:
    """The lowest ticket of others, when this one of theirs is known, if there is a lower one."""
    if ticket > QUEUE and start_in_the_way(fd, asked(WRITE, QUEUE, ticket - QUEUE)) is None:
        return None
    head = first(fd)
    return None if head is None or head.start == ticket else head


def after(fd: int, ticket: int) -> Span | None:
    """The next ticket of others behind this one."""
    found = in_the_way(fd, WRITE, ticket + 1, END)
    return None if found is None else _lowest(fd, ticket + 1, END, found)


def walk(fd: int) -> Iterator[Span]:
    """All tickets of others, in order."""
    ticket = QUEUE - 1
    while (found := after(fd, ticket)) is not None:
        yield found
        ticket = found.start


def waits(fd: int, ticket: int) -> bool:
    """Whether somebody else has this ticket; a holder's range may cover one that is given up."""
    return start_in_the_way(fd, asked(WRITE, ticket, 1)) == ticket


def ahead(fd: int, ticket: int) -> int:
    """How many wait before this ticket: 0, 1, or 2 for more."""
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


def may_enter(fd: int, head: Span) -> bool:
    """Whether ringing this head of the line is worth it."""
    kind = lock_kind(fd)
    return kind is None or (kind == READ and head.kind == READ)


def _lowest_in(fd: int, low: int, high: int, *, any_one: bool = False) -> Span | None:
    if low >= high:
        return None
    found = in_the_way(fd, WRITE, low, high - low)
    if found is None or (any_one and found.start >= QUEUE):
        return found
    return _lowest(fd, low, high, found)


def _lowest(fd: int, low: int, high: int, found: Span | None) -> Span | None:
    best: Span | None = None
    while found is not None:
        if found.start < QUEUE:
            low = found.end  # a holder that came through the line has it locked up to its ticket
        else:
            best, high = found, found.start
        if (high != END and low >= high) or low >= 2**63 - 1:
            break
        found = in_the_way(fd, WRITE, low, high - low if high != END else END)
    return best
