"""Who holds and who waits, read without taking any lock: kernel locks say who is real.

The records stay after a release (that saves a write), so a record counts only where the kernel says
that its bytes are locked, or where it stands for a parked hold that has not run out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from locknut.backends.file import cleaning, descriptors, line, slots
from locknut.backends.file.files import Files, LockFile
from locknut.backends.file.identity import Identity, boot_clock, monotonic_clock
from locknut.backends.file.kernel import READ, WRITE, Span
from locknut.backends.file.layout import BLANK, BROKEN, EXCLUSIVE, PERMIT, SHARED, Record
from locknut.backends.file.naming import file_name
from locknut.backends.file.waiting import waiter
from locknut.core.values import Holder, LockInfo, Mode
from locknut.errors import BackendError

_MODES: Final = {SHARED: Mode.SHARED, PERMIT: Mode.PERMIT}
_READS: Final = 10


def inspect(files: Files, key: str | None, me: Identity) -> list[LockInfo]:
    if key is None:
        found = (_look_in_passing(files, name, me) for name in cleaning.lock_files(files))
    else:
        names = [file_name(key, mode) for mode in (Mode.EXCLUSIVE, Mode.PERMIT)]
        found = (_look_by_name(files, name, me) for name in names)
    return [info for info in found if info is not None]


def look(file: LockFile, me: Identity) -> LockInfo | None:
    """None if nobody holds it or waits for it."""
    key, semaphore = file.key, file.semaphore
    holders = tuple(_holders(file, me))
    waiters = tuple(_waiter(file, span) for span in line.walk(file.fd))
    if not holders and not waiters:
        return None
    return LockInfo(key, holders, waiters, file.glance().permits if semaphore else None)


def _look_by_name(files: Files, name: str, me: Identity) -> LockInfo | None:
    file = files.open_existing(name)
    if file is None:
        return None
    try:
        return look(file, me)
    finally:
        descriptors.close(file.fd)


def _look_in_passing(files: Files, name: str, me: Identity) -> LockInfo | None:
    """One bad file, or another user's, does not keep the others from being listed."""
    with suppress(OSError, BackendError):
        return _look_by_name(files, name, me)
    return None


def _holders(file: LockFile, me: Identity) -> Iterator[Holder]:
    last = _last_grant(file)
    kind = line.lock_kind(file.fd)
    if kind == WRITE:
        if not cleaning.in_progress(file.fd):
            known = last.mode == EXCLUSIVE
            yield _holder(last) if known else Holder(mode=Mode.EXCLUSIVE)
    elif kind == READ or file.semaphore:
        yield from _in_slots(file, kind)
    for record in slots.parked(file.fd, last, me).values():
        left = (record.until - boot_clock()) / 1e9
        yield _holder(record)._replace(pid=None, ttl_left=max(0.0, left))


def _in_slots(file: LockFile, kind: int | None) -> Iterator[Holder]:
    records = enumerate(slots.table(file.fd))
    seen = [one for slot, one in records if one is not None and slots.taken(file.fd, slot)]
    yield from (_holder(one) for one in seen if not one.flags & BROKEN)
    if not seen and kind == READ:
        yield Holder(mode=Mode.SHARED)  # more readers than slots: somebody, but we cannot say who


def _last_grant(file: LockFile) -> Record:
    for _ in range(_READS):  # again where it was being written
        record = file.glance()
        if record != BLANK:
            return record
    return BLANK


def _holder(record: Record) -> Holder:
    host, who, label, owner = record.told()
    return Holder(
        host=host,
        pid=record.pid,
        who=who,
        label=label,
        mode=_MODES.get(record.mode, Mode.EXCLUSIVE),
        raw=record.raw,
        since=record.since / 1e6,
        owner=owner or None,
    )


def _waiter(file: LockFile, span: Span) -> Holder:
    mode = Mode.PERMIT if file.semaphore else Mode.SHARED if span.kind == READ else Mode.EXCLUSIVE
    since = time.time() - (monotonic_clock() - line.came_at(span.start)) / 1e9
    record = waiter(file.fd, span.start)
    if record is None:
        return Holder(mode=mode, since=since)
    return _holder(record)._replace(mode=mode, since=since, raw=None)
