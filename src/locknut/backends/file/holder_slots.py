"""The slots: who is in beside others (readers, permits, co-owners), and whose hold is detached.

A slot is taken by a kernel lock on its byte, so a killed holder's slot is free at once; its record
tells people who it is. Slots are taken, written and counted under META only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from locknut.backends.file import file_layout, ofd_locks
from locknut.backends.file.file_layout import BROKEN, MAX_SLOTS, META, RECORD, SLOT, SLOTS, Record
from locknut.backends.file.lock_files import LockFile
from locknut.backends.file.ofd_locks import WRITE, in_the_way, take
from locknut.backends.file.outcomes import Crowded
from locknut.backends.file.this_process import ProcessIdentity, boot_clock, same_boot

LISTED: Final = 256
"""How many readers or co-owners of one name are listed; more may hold it."""
_PROBES: Final = 32
_SPINS: Final = 300
_YIELD_AFTER: Final = 5


class SlotsMutex:
    """The mutex around the shared parts of the file. It is held for microseconds, so we spin for
    it.

    It is not a generator: a generator that was interrupted in its `__exit__` goes on when it is
    collected, and would take META from whichever claim has the descriptor by then.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> None:
        for spin in range(_SPINS):
            if take(self._fd, WRITE, META, 1):
                return
            if spin > _YIELD_AFTER:
                os.sched_yield()
        raise Crowded

    def __exit__(self, *_: object) -> None:
        ofd_locks.drop(self._fd, META, 1)


def table(fd: int) -> list[Record | None]:
    """Return the records of all slots; None where there is none that can be read."""
    room = max(0, os.fstat(fd).st_size - SLOTS)
    data = os.pread(fd, min(room, MAX_SLOTS * RECORD), SLOTS)
    return [file_layout.decode(data[at : at + RECORD]) for at in range(0, len(data), RECORD)]


def read(fd: int, slot: int) -> Record | None:
    return file_layout.decode(os.pread(fd, RECORD, SLOTS + slot * RECORD))


def write(fd: int, slot: int, record: Record) -> None:
    os.pwrite(fd, file_layout.encode(record), SLOTS + slot * RECORD)


def write_unless_full(fd: int, slot: int, record: Record) -> None:
    """Write down who is in, for people. If the disk is full, go without it, unless the old record
    would name somebody else instead of us.
    """
    try:
        write(fd, slot, record)
    except OSError:
        if read(fd, slot) is not None:
            raise


def taken(fd: int, slot: int) -> bool:
    """Return whether another descriptor has this slot."""
    return in_the_way(fd, WRITE, SLOT + slot, 1) is not None


def detached(fd: int, last: Record, me: ProcessIdentity) -> dict[int, Record]:
    """The slots whose hold lives on without a process. Those of an earlier boot do not."""
    if not last.until or not same_boot(last, me) or last.until <= boot_clock():
        return {}
    now = boot_clock()
    return {
        slot: record
        for slot, record in enumerate(table(fd))
        if record is not None and record.until > now and same_boot(record, me)
    }


def detached_until(last: Record, me: ProcessIdentity) -> int:
    """What a new grant's record says of detached holds: as before, unless all have run out."""
    return last.until if same_boot(last, me) and last.until > boot_clock() else 0


def take_listed(file: LockFile, last: Record, me: ProcessIdentity) -> int | None:
    """Take a slot for a reader or co-owner; None if none was found: the hold is not listed then."""
    kept = detached(file.fd, last, me)
    for probe in range(_PROBES):
        slot = (file.hint + probe) % LISTED
        if slot not in kept and take(file.fd, WRITE, SLOT + slot, 1):
            file.hint = slot
            return slot
    return None


def take_permit(file: LockFile, permits: int, last: Record, me: ProcessIdentity) -> int | None:
    """Take a slot if fewer than `permits` are held, whatever limit their holders had; else None."""
    limit = min(permits, MAX_SLOTS)
    if last.flags & BROKEN or detached_until(last, me):
        return _take_counting(file, limit, last, me)
    slot = _take_below(file, limit)
    if slot is None:
        return None
    if limit == MAX_SLOTS or not in_the_way(file.fd, WRITE, SLOT + limit, MAX_SLOTS - limit):
        return slot
    ofd_locks.drop(file.fd, SLOT + slot, 1)
    return _take_counting(file, limit, last, me)


def _take_below(file: LockFile, limit: int) -> int | None:
    """Take any free slot; try the one that this descriptor had last first."""
    for probe in range(limit):
        slot = (file.hint + probe) % limit
        if take(file.fd, WRITE, SLOT + slot, 1):
            file.hint = slot
            return slot
    return None


def _take_counting(file: LockFile, limit: int, last: Record, me: ProcessIdentity) -> int | None:
    records = table(file.fd)
    kept = detached(file.fd, last, me)
    inside = {slot for slot in _all_taken(file.fd, 0, MAX_SLOTS) if slot not in kept}
    out = [slot for slot, record in enumerate(records) if slot in inside and _broken(record)]
    if len(inside) - len(out) + len(kept) >= limit:
        return None
    for slot in range(MAX_SLOTS):
        if slot not in kept and slot not in inside and take(file.fd, WRITE, SLOT + slot, 1):
            return slot
    return None


def _all_taken(fd: int, first: int, end: int) -> Iterator[int]:
    """Yield every slot that others have. We ask the kernel: the file may have been cut short."""
    ranges = [(first, end)]
    while ranges:
        low, high = ranges.pop()
        found = in_the_way(fd, WRITE, SLOT + low, high - low) if low < high else None
        if found is not None:
            start, stop = max(low, found.start - SLOT), min(high, found.end - SLOT)
            yield from range(start, stop)
            ranges += [(low, start), (stop, high)]


def any_broken(fd: int) -> bool:
    """Return whether a holder that was ended by force still has its slot."""
    return any(_broken(record) and taken(fd, slot) for slot, record in enumerate(table(fd)))


def _broken(record: Record | None) -> bool:
    return record is not None and bool(record.flags & BROKEN)
