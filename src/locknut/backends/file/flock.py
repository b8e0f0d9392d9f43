"""Locks on whole files, for systems without open-file-description locks: flock, or Windows' own.

Both kinds belong to the open file, as OFD locks do, so the lock of a killed holder is free at once.
`FlockFile` is one lock file of the flock engine: how it is read, and whether its holds still count.
Its name is taken away as in the other engine (`burial`).
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from typing import Final

from locknut.backends.file import file_layout, this_process
from locknut.backends.file.directory import stem
from locknut.backends.file.file_layout import EXCLUSIVE, GONE, GRAVE, SHARED, Record, number_after
from locknut.backends.file.folder import Folder
from locknut.backends.file.lock_files import check_plain, foreign_file, leads_to
from locknut.backends.file.this_process import ProcessIdentity, record_of
from locknut.core.values import Claim, Holder, LockInfo, Mode
from locknut.errors import BackendError

SUFFIX: Final = ".flock"

if sys.platform == "win32":
    import msvcrt

    _FAR = 2**30
    CAN_SHARE = False

    def lock(fd: int, shared: bool) -> bool:
        del shared
        os.lseek(fd, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(fd: int) -> None:
        os.lseek(fd, _FAR, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

    def read_at(fd: int, size: int, offset: int) -> bytes:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, size)

    def write_at(fd: int, data: bytes, offset: int) -> None:
        os.lseek(fd, offset, os.SEEK_SET)
        os.write(fd, data)

else:
    import fcntl

    CAN_SHARE = True

    def lock(fd: int, shared: bool) -> bool:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_UN)

    def read_at(fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def write_at(fd: int, data: bytes, offset: int) -> None:
        os.pwrite(fd, data, offset)


class FlockFile:
    """One descriptor of one lock file."""

    __slots__ = ("fd", "folder", "key", "name", "path")

    def __init__(self, fd: int, folder: Folder, name: str, key: str = "") -> None:
        self.fd = fd
        self.folder = folder
        self.name = name
        self.path = folder.path(name)
        try:
            check_plain(os.fstat(fd), self.path)
            self.key = key or _key_in(fd) or name
        except BaseException:
            this_process.close_fd(fd)
            raise

    def glance(self) -> Record:
        """The last grant."""
        return file_layout.decode(read_at(self.fd, file_layout.RECORD, 0)) or file_layout.BLANK

    def grave(self) -> int:
        """0 in a file that is in use."""
        return int.from_bytes(read_at(self.fd, len(file_layout.ALIVE), GRAVE), "little")

    def mark(self, grave: bytes) -> None:
        write_at(self.fd, grave, GRAVE)

    def linked(self) -> bool:
        """Whether the path still leads to this very file."""
        about = os.fstat(self.fd)
        return leads_to(self.path, (about.st_dev, about.st_ino))

    def alive(self) -> bool:
        """Whether the file is not buried, and the path still leads to it."""
        return not self.grave() and self.linked()

    def holds(self, raw: int) -> bool:
        """Whether the hold with this number was not ended by force."""
        grave = self.grave()
        ended = grave and (grave == GONE or grave >= raw)
        return not ended and self.linked()

    def write_grant(self, claim: Claim, me: ProcessIdentity) -> int:
        """Write down that this claim holds the lock now; returns the number of the grant."""
        head = read_at(self.fd, file_layout.HEAD, 0)
        if file_layout.foreign(head):
            raise foreign_file(self.path, claim.key)
        if not any(head):
            write_at(self.fd, file_layout.encode_key(claim.key), file_layout.KEY)
        now = time.time_ns()
        raw = number_after(self.glance().raw, now)
        mode = SHARED if claim.mode is Mode.SHARED else EXCLUSIVE
        record = record_of(claim, mode, bytes(16), raw, now, me)
        write_at(self.fd, file_layout.encode(record), 0)
        return raw

    def close(self) -> None:
        unlock(self.fd)  # explicitly: a copy in a child may outlive the close (S17)
        this_process.close_fd(self.fd)


def file_name(key: str) -> str:
    return stem(key) + SUFFIX


def open_existing(folder: Folder, name: str) -> FlockFile | None:
    fd = folder.open(name)
    return None if fd is None else FlockFile(fd, folder, name)


def lock_info(folder: Folder, name: str) -> LockInfo | None:
    """Who holds this file's lock; None if nobody does. We try to lock it, so for a moment we may be
    in the way ourselves.
    """
    file = open_existing(folder, name)
    if file is None:
        return None
    try:
        free = lock(file.fd, False)
        return None if free else LockInfo(file.key, (_holder(file.glance()),))
    finally:
        file.close()


def lock_info_or_none(folder: Folder, name: str) -> LockInfo | None:
    """`lock_info` for a list of all locks: a bad file, or another user's, does not spoil it."""
    with suppress(OSError, BackendError):
        return lock_info(folder, name)
    return None


def _key_in(fd: int) -> str | None:
    return file_layout.decode_key(read_at(fd, file_layout.KEY_ROOM, file_layout.KEY))


def _holder(record: Record) -> Holder:
    host, who, label, _ = record.texts()
    mode = Mode.SHARED if record.mode == SHARED else Mode.EXCLUSIVE
    return Holder(host, record.pid, who, label, mode, record.raw, record.since / 1e6)
