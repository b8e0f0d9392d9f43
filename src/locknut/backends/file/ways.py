"""How each mode enters: which bytes to lock, what must not be there, and the number it gets.

Every way returns the raw fence of the grant, or None if it was refused before anything was locked.
Refused later it raises an outcome, and the caller drops what was locked on the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from locknut.backends.file import line, slots
from locknut.backends.file.identity import Identity, boot_clock
from locknut.backends.file.kernel import READ, WRITE, asked, in_the_way, take, take_asked
from locknut.backends.file.layout import (
    BROKEN,
    EXCLUSIVE,
    LOCK,
    OWNED,
    OWNERS,
    PERMIT,
    RAW_STEP,
    READERS,
    SHARED,
    Record,
)
from locknut.backends.file.numbering import number_after
from locknut.backends.file.outcomes import Orphaned, Refused, Reserved
from locknut.backends.file.places import BARGE, Place


def _alone(place: Place, me: Identity) -> int | None:
    file, request = place.file, place.request
    if request is BARGE and place.claim.fair:
        request = asked(WRITE, LOCK, line.now_ticket() + 1 - LOCK)
    if not take_asked(file.fd, request):
        return None
    now = time.time_ns()
    file.look(now)
    if file.until:
        _refuse_parked(place, file.read(now), me, allowed=0)
    raw = now // RAW_STEP
    if raw <= file.raw or not file.raw:
        raw = number_after(file.raw, now)
    file.write_plain(place.stamp(EXCLUSIVE, raw, now, me), raw)
    if file.grave():
        raise Orphaned  # buried since we looked, by one who did not see our record
    return raw


def _with_readers(place: Place, me: Identity) -> int | None:
    file, fd = place.file, place.file.fd
    # Also at the first try up to a ticket: a reader never passes a writer that waits.
    end = line.now_ticket() + 1 if place.ticket is None else place.ticket
    if not take(fd, READ, READERS, end - READERS):
        return None
    with slots.Meta(fd):
        now = time.time_ns()
        last = file.read(now)
        if in_the_way(fd, WRITE, OWNERS, 1):  # the kernel is asked, whatever the record says
            raise Refused
        _refuse_parked(place, last, me, allowed=SHARED)
        raw = number_after(last.raw, now)
        _admit(place, last, place.record(SHARED, raw, now, me), me)
    return raw


def _with_owner(place: Place, me: Identity) -> int | None:
    file, fd = place.file, place.file.fd
    if not take(fd, READ, LOCK, 1):
        return None
    with slots.Meta(fd):
        now = time.time_ns()
        last = file.read(now)
        joins = _joins(place, last, me)
        if not joins:
            if in_the_way(fd, WRITE, READERS, 1) or not _in_turn(place):
                raise Refused
            _refuse_parked(place, last, me, allowed=0)
        take(fd, READ, OWNERS, 1)
        raw = last.raw if joins else number_after(last.raw, now)
        _admit(place, last, place.record(OWNED, raw, now, me), me)
    line.leave(fd)
    return raw


def _joins(place: Place, last: Record, me: Identity) -> bool:
    """Whether a co-owner is in already; raises if it is another owner."""
    fd = place.file.fd
    if not in_the_way(fd, WRITE, OWNERS, 1) and not slots.parked(fd, last, me):
        return False
    if last.mode == OWNED and last.owner_digest == place.owner_digest:
        return True
    if in_the_way(fd, WRITE, OWNERS, 1):
        raise Refused
    return False


def _with_permit(place: Place, me: Identity) -> int | None:
    file, fd = place.file, place.file.fd
    if not _in_turn(place):
        return None
    with slots.Meta(fd):
        now = time.time_ns()
        last = file.read(now)
        place.slot = slots.take_permit(file, place.claim.permits, last, me)
        if place.slot is None:
            raise Refused
        raw = number_after(last.raw, now)
        _admit(place, last, place.record(PERMIT, raw, now, me), me)
    if place.ticket is not None:
        line.leave(fd)
    return raw


def _in_turn(place: Place) -> bool:
    """Whether nobody waits before us; who just came and is not fair does not ask."""
    if place.ticket is not None:
        return line.free_before(place.file.fd, place.ticket)
    return not place.claim.fair or line.empty(place.file.fd)


def _admit(place: Place, last: Record, record: Record, me: Identity) -> None:
    """Under META: write the grant into its slot, and as the last one."""
    file = place.file
    if place.slot is None:
        place.slot = slots.take_listed(file, last, me)
    if place.slot is not None:
        slots.tell(file.fd, place.slot, record)
    if last.until or last.flags:
        broken = BROKEN if last.flags & BROKEN and slots.any_broken(file.fd) else 0
        record = record._replace(until=slots.still_parked(last, me), flags=broken)
    file.write(record)


def _refuse_parked(place: Place, last: Record, me: Identity, *, allowed: int) -> None:
    kept = slots.parked(place.file.fd, last, me)
    until = [record.until for record in kept.values() if record.mode != allowed]
    if until:
        raise Reserved(max(0.001, (max(until) - boot_clock()) / 1e9))


BY_MODE: Final[dict[int, Callable[[Place, Identity], int | None]]] = {
    EXCLUSIVE: _alone,
    SHARED: _with_readers,
    PERMIT: _with_permit,
    OWNED: _with_owner,
}
"""Take the key now."""
