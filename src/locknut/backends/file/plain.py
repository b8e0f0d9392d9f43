"""What the plainer engine does with one lock file: open, look, and take its name away for good."""

from __future__ import annotations

import os
from contextlib import suppress

from locknut.backends.file import descriptors, layout, whole
from locknut.backends.file.layout import SHARED
from locknut.core.values import Holder, LockInfo, Mode


def last_grant(fd: int) -> layout.Record:
    return layout.decode(whole.read_at(fd, layout.RECORD, 0)) or layout.BLANK


def grave(fd: int) -> int:
    """0 in a file that is in use."""
    return int.from_bytes(whole.read_at(fd, len(layout.ALIVE), layout.GRAVE), "little")


def alive(path: str, fd: int) -> bool:
    """Whether the file is not buried, and the path still leads to it."""
    return not grave(fd) and leads_to(path, fd)


def holds(path: str, fd: int, raw: int) -> bool:
    """Whether the hold with this number was not ended by force."""
    buried = grave(fd)
    ended = buried and (buried == layout.GONE or buried >= raw)
    return not ended and leads_to(path, fd)


def leads_to(path: str, fd: int) -> bool:
    with suppress(FileNotFoundError, NotADirectoryError):
        return os.path.samestat(os.stat(path), os.fstat(fd))
    return False


def bury(path: str, fd: int, last: int, *, whoever: bool) -> bool:
    """Under the mutex of the directory: end the hold numbered `last`; False if somebody else has
    come in since. Whoever gets the lock reads the grave after its record is written.
    """
    while True:
        whole.write_at(fd, layout.grave(last), layout.GRAVE)
        newest = last_grant(fd).raw
        if newest <= last:
            break
        if not whoever:
            whole.write_at(fd, layout.ALIVE, layout.GRAVE)
            return False
        last = newest
    take_name(path, fd)
    return True


def finish_burial(path: str, fd: int) -> None:
    """Under the mutex: whoever buried this file may have been killed before its name was gone."""
    buried = grave(fd)
    if buried and leads_to(path, fd):
        if buried != layout.GONE and last_grant(fd).raw > buried:
            whole.write_at(fd, layout.ALIVE, layout.GRAVE)
        else:
            take_name(path, fd)


def take_name(path: str, fd: int) -> None:
    """Under the mutex: nobody else of ours puts another file there between the look and this."""
    if leads_to(path, fd):
        os.unlink(path)


def open_locked(path: str, *, shared: bool) -> int | None:
    with suppress(FileNotFoundError):
        fd = descriptors.open_file(path, os.O_RDWR)
        try:
            if whole.lock(fd, shared):
                return fd
        except BaseException:
            descriptors.close(fd)
            raise
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
