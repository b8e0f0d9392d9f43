"""How a claim of each mode enters: which bytes it locks, what keeps it out, which number it gets.

1. *Exclusive*: it locks LOCK alone, or with a ticket everything up to the ticket.
2. *Shared*: it read-locks READERS and LOCK up to its ticket, so it never passes a waiting writer.
3. *Owned* (several claims of one owner): it read-locks LOCK and OWNERS, and joins a hold of the
   same owner with the same number.
4. *Permit*: it locks one of the slots, if fewer than the limit are taken.

Each function returns the raw fence of the grant, or None if it was refused before it locked
anything. If it is refused later, it raises an outcome, and the caller drops what was locked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from locknut.backends.file import holder_slots, line
from locknut.backends.file.claim_state import BARGE, ClaimState
from locknut.backends.file.file_layout import (
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
    number_after,
)
from locknut.backends.file.ofd_locks import READ, WRITE, asked, in_the_way, take, take_asked
from locknut.backends.file.outcomes import Orphaned, Refused, Reserved
from locknut.backends.file.this_process import ProcessIdentity, boot_clock


def enter_exclusive(state: ClaimState, me: ProcessIdentity) -> int | None:
    file, request = state.file, state.request
    if request is BARGE and state.claim.fair:
        request = asked(WRITE, LOCK, line.now_ticket() + 1 - LOCK)
    if not take_asked(file.fd, request):
        return None
    now = time.time_ns()
    file.look(now)
    if file.until:
        _refuse_detached(state, file.read(now), me, allowed=0)
    raw = now // RAW_STEP
    if raw <= file.raw or not file.raw:
        raw = number_after(file.raw, now)
    file.write_plain(state.encode_exclusive(EXCLUSIVE, raw, now, me), raw)
    if file.grave():
        raise Orphaned  # buried since we looked, by a process that did not see our record
    return raw


def enter_shared(state: ClaimState, me: ProcessIdentity) -> int | None:
    file, fd = state.file, state.file.fd
    # The first attempt also locks up to a ticket: a reader never passes a writer that waits.
    end = line.now_ticket() + 1 if state.ticket is None else state.ticket
    if not take(fd, READ, READERS, end - READERS):
        return None
    with holder_slots.SlotsMutex(fd):
        now = time.time_ns()
        last = file.read(now)
        if in_the_way(fd, WRITE, OWNERS, 1):  # the kernel is asked, whatever the record says
            raise Refused
        _refuse_detached(state, last, me, allowed=SHARED)
        raw = number_after(last.raw, now)
        _admit(state, last, state.record(SHARED, raw, now, me), me)
    return raw


def enter_owned(state: ClaimState, me: ProcessIdentity) -> int | None:
    file, fd = state.file, state.file.fd
    if not take(fd, READ, LOCK, 1):
        return None
    with holder_slots.SlotsMutex(fd):
        now = time.time_ns()
        last = file.read(now)
        joins = _joins(state, last, me)
        if not joins:
            if in_the_way(fd, WRITE, READERS, 1) or not _in_turn(state):
                raise Refused
            _refuse_detached(state, last, me, allowed=0)
        take(fd, READ, OWNERS, 1)
        raw = last.raw if joins else number_after(last.raw, now)
        _admit(state, last, state.record(OWNED, raw, now, me), me)
    line.leave(fd)
    return raw


def _joins(state: ClaimState, last: Record, me: ProcessIdentity) -> bool:
    """Return whether a claim of the same owner is in already; raise Refused if another owner is."""
    fd = state.file.fd
    if not in_the_way(fd, WRITE, OWNERS, 1) and not holder_slots.detached(fd, last, me):
        return False
    if last.mode == OWNED and last.owner_digest == state.owner_digest:
        return True
    if in_the_way(fd, WRITE, OWNERS, 1):
        raise Refused
    return False


def enter_permit(state: ClaimState, me: ProcessIdentity) -> int | None:
    file, fd = state.file, state.file.fd
    if not _in_turn(state):
        return None
    with holder_slots.SlotsMutex(fd):
        now = time.time_ns()
        last = file.read(now)
        state.slot = holder_slots.take_permit(file, state.claim.permits, last, me)
        if state.slot is None:
            raise Refused
        raw = number_after(last.raw, now)
        _admit(state, last, state.record(PERMIT, raw, now, me), me)
    if state.ticket is not None:
        line.leave(fd)
    return raw


def _in_turn(state: ClaimState) -> bool:
    """Return whether nobody waits in front of us. A claim that is new and not fair does not ask."""
    if state.ticket is not None:
        return line.free_before(state.file.fd, state.ticket)
    return not state.claim.fair or line.empty(state.file.fd)


def _admit(state: ClaimState, last: Record, record: Record, me: ProcessIdentity) -> None:
    """Write the grant into its slot and into the first record; the caller has META."""
    file = state.file
    if state.slot is None:
        state.slot = holder_slots.take_listed(file, last, me)
    if state.slot is not None:
        holder_slots.write_unless_full(file.fd, state.slot, record)
    if last.until or last.flags:
        broken = BROKEN if last.flags & BROKEN and holder_slots.any_broken(file.fd) else 0
        record = record._replace(until=holder_slots.detached_until(last, me), flags=broken)
    file.write(record)


def _refuse_detached(state: ClaimState, last: Record, me: ProcessIdentity, *, allowed: int) -> None:
    kept = holder_slots.detached(state.file.fd, last, me)
    until = [record.until for record in kept.values() if record.mode != allowed]
    if until:
        raise Reserved(max(0.001, (max(until) - boot_clock()) / 1e9))


BY_MODE: Final[dict[int, Callable[[ClaimState, ProcessIdentity], int | None]]] = {
    EXCLUSIVE: enter_exclusive,
    SHARED: enter_shared,
    PERMIT: enter_permit,
    OWNED: enter_owned,
}
"""The function that enters, by the mode of the claim."""
