"""What the plainer engine does with one lock file: open, look, and take its name away for good."""

from __future__ import annotations

import os
from contextlib import suppress

from locknut.backends.file import descriptors, layout, whole
from locknut.backends.file.layout import SHARED
from locknut.core.values import Holder, LockInfo, Mode


def last_grant(fd: int) -> layout.Record:
    return layout.decode(whole.read_at(fd, layout.RECORD, 0)) or layout.BLANK


def alive(path: str, fd: int) -> bool:
    """Whether the file is not buried, and the path still leads to it."""
    if any(whole.read_at(fd, len(layout.ALIVE), layout.GRAVE)):
        with suppress(OSError):
            _unlink(path, fd)  # whoever buried it may have been killed before this
        return False
    return leads_to(path, fd)


def leads_to(path: str, fd: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.stat(path), os.fstat(fd))
    return False


def bury(path: str, fd: int, mark: bytes) -> None:
    whole.write_at(fd, mark, layout.GRAVE)
    _unlink(path, fd)


def _unlink(path: str, fd: int) -> None:
    if leads_to(path, fd):
        os.unlink(path)


def open_locked(path: str, *, shared: bool) -> int | None:
    with suppress(FileNotFoundError):
        fd = descriptors.open_file(path, os.O_RDWR)
        if whole.lock(fd, shared):
            return fd
        descriptors.close(fd)
    return None


def look(path: str) -> LockInfo | None:
    """By trying: for a moment the one who looks may itself be in the way."""
    free = open_locked(path, shared=False)
    if free is not None:
        close(free)
        return None
    with suppress(FileNotFoundError):
        fd = descriptors.open_file(path, os.O_RDWR)
        try:
            key = layout.decode_key(whole.read_at(fd, layout.KEY_ROOM, layout.KEY)) or path
            return LockInfo(key, (_holder(last_grant(fd)),))
        finally:
            descriptors.close(fd)
    return None


def _holder(record: layout.Record) -> Holder:
    host, who, label, _ = record.told()
    mode = Mode.SHARED if record.mode == SHARED else Mode.EXCLUSIVE
    return Holder(host, record.pid, who, label, mode, record.raw, record.since / 1e6)


def close(fd: int) -> None:
    whole.unlock(fd)  # explicitly: a copy in a child may outlive the close (S17)
    descriptors.close(fd)
