"""Locks on whole files, for systems without open-file-description locks: flock, or Windows' own.

Both belong to the open file, as OFD locks do, so a killed holder's lock is free at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

Locking = Callable[[int, bool], bool]
"""(descriptor, shared) -> whether it was locked, at once."""

if sys.platform == "win32":
    import msvcrt

    _FAR = 2**30
    SHARED = False

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

    SHARED = True

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
