"""Who holds a lock and who waits for it (inspect), and ending a hold by force (break).

*Inspect* takes no lock. Records stay in the file after a release, which saves a write. So a record
counts only where the kernel says that its bytes are locked, or where it stands for a detached hold
that has not run out.

*Break*: a kernel lock cannot be taken away from its holder, so its file is. The next claim
finds a new file, and the old holder learns of the loss at its next heartbeat. Breaking one reader
therefore ends all readers of that name. A permit is different: its slot is marked as broken and is
not counted any more, and the other permits stay.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from locknut.backends.file import burial, cleanup, holder_slots, line, this_process
from locknut.backends.file.directory import file_name
from locknut.backends.file.file_layout import BLANK, BROKEN, EXCLUSIVE, PERMIT, SHARED, Record
from locknut.backends.file.line import waiter_record
from locknut.backends.file.lock_files import Files, LockFile
from locknut.backends.file.ofd_locks import READ, WRITE, LockedRange
from locknut.backends.file.recipe import Recipe
from locknut.backends.file.this_process import ProcessIdentity, boot_clock, monotonic_clock
from locknut.core.values import Holder, LockInfo, Mode
from locknut.errors import BackendError

_MODES: Final = {SHARED: Mode.SHARED, PERMIT: Mode.PERMIT}
_READS: Final = 10


def inspect(files: Files, key: str | None, me: ProcessIdentity) -> list[LockInfo]:
    if key is None:
        found = (_look_in_passing(files, name, me) for name in cleanup.lock_file_names(files))
    else:
        names = [file_name(key, mode) for mode in (Mode.EXCLUSIVE, Mode.PERMIT)]
        found = (_look_by_name(files, name, me) for name in names)
    return [info for info in found if info is not None]


def lock_info(file: LockFile, me: ProcessIdentity) -> LockInfo | None:
    """None if nobody holds it or waits for it."""
    key, semaphore = file.key, file.semaphore
    holders = tuple(_holders(file, me))
    waiters = tuple(_waiter(file, span) for span in line.walk(file.fd))
    if not holders and not waiters:
        return None
    return LockInfo(key, holders, waiters, file.glance().permits if semaphore else None)


def _look_by_name(files: Files, name: str, me: ProcessIdentity) -> LockInfo | None:
    file = files.open_existing(name)
    if file is None:
        return None
    try:
        return lock_info(file, me)
    finally:
        this_process.close_fd(file.fd)


def _look_in_passing(files: Files, name: str, me: ProcessIdentity) -> LockInfo | None:
    """One bad file, or another user's, does not keep the others from being listed."""
    with suppress(OSError, BackendError):
        return _look_by_name(files, name, me)
    return None


def _holders(file: LockFile, me: ProcessIdentity) -> Iterator[Holder]:
    last = _last_grant(file)
    kind = line.lock_kind(file.fd)
    if kind == WRITE:
        if not cleanup.in_progress(file.fd):
            known = last.mode == EXCLUSIVE
            yield _holder(last) if known else Holder(mode=Mode.EXCLUSIVE)
    elif kind == READ or file.semaphore:
        yield from _in_slots(file, kind)
    for record in holder_slots.detached(file.fd, last, me).values():
        left = (record.until - boot_clock()) / 1e9
        yield _holder(record)._replace(pid=None, ttl_left=max(0.0, left))


def _in_slots(file: LockFile, kind: int | None) -> Iterator[Holder]:
    records = enumerate(holder_slots.table(file.fd))
    seen = [one for slot, one in records if one is not None and holder_slots.taken(file.fd, slot)]
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
    host, who, label, owner = record.texts()
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


def _waiter(file: LockFile, span: LockedRange) -> Holder:
    mode = Mode.PERMIT if file.semaphore else Mode.SHARED if span.kind == READ else Mode.EXCLUSIVE
    since = time.time() - (monotonic_clock() - line.came_at(span.start)) / 1e9
    record = waiter_record(file.fd, span.start)
    if record is None:
        return Holder(mode=mode, since=since)
    return _holder(record)._replace(mode=mode, since=since, raw=None)


def break_hold(recipe: Recipe, key: str, raw: int | None, note: str = "") -> LockInfo | None:
    """The lock of this name; if nothing was there to break, its semaphore."""
    for mode in (Mode.EXCLUSIVE, Mode.PERMIT):
        if (broken := _break(recipe, key, mode, raw, note)) is not None:
            return broken
    return None


def _break(recipe: Recipe, key: str, mode: Mode, raw: int | None, note: str) -> LockInfo | None:
    file = recipe.files.open_existing(file_name(key, mode))
    if file is None:
        return None
    try:
        with holder_slots.SlotsMutex(file.fd):
            last = file.glance().raw  # first: a grant that comes later has a higher number
            info = lock_info(file, recipe.me)
            if info is None or not _meant(info, raw):
                return None
            one = raw if mode is Mode.PERMIT else None  # breaking a lock ends all its holds
            with burial.note_to_holders(file.fd, one or 0, one or last, note) as sent:
                if mode is Mode.PERMIT:
                    _mark(recipe, file, raw)
                elif not burial.bury(file, last, newcomers_too=raw is None):
                    return None
                sent.stays = True
        recipe.ring_first(file, sure=True)  # a waiter that moves to the new file rings the next
        return info
    finally:
        this_process.close_fd(file.fd)


def _meant(info: LockInfo, raw: int | None) -> bool:
    return any(raw is None or holder.raw == raw for holder in info.holders)


def _mark(recipe: Recipe, file: LockFile, raw: int | None) -> None:
    last = file.glance()
    # First: it only says that there may be such slots. A break that ends in between (SIGKILL) must
    # not leave a marked slot that counts as taken, and that no later break would see.
    file.write(last._replace(flags=BROKEN))
    kept = holder_slots.detached(file.fd, last, recipe.me)
    for slot, record in enumerate(holder_slots.table(file.fd)):
        if record is None or raw not in (None, record.raw):
            continue
        if slot in kept:
            holder_slots.write(file.fd, slot, BLANK)
        elif holder_slots.taken(file.fd, slot):
            holder_slots.write(file.fd, slot, record._replace(flags=BROKEN))
