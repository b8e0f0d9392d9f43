"""Removing lock files nobody needs, without ever letting two in.

The classic bug: A holds, B has the file open and waits, A unlinks and unlocks; B locks the orphan,
C makes and locks a new file, and both hold. Here a file is removed only by who has locked all of it
(nobody holds or waits), is buried first (the grave is read by everybody under the lock, before a
grant counts), and only while the path still leads to it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from locknut.backends.file import burying, descriptors, kernel, layout, slots
from locknut.backends.file.files import Files, LockFile
from locknut.backends.file.folder import AT_ONCE, UNUSED_FOR
from locknut.backends.file.identity import Identity
from locknut.backends.file.kernel import END, WRITE
from locknut.backends.file.naming import LOCKS, SEMAPHORES
from locknut.backends.file.numbering import ahead_of_clock
from locknut.errors import BackendError

_THE_LOCK: Final = kernel.asked(WRITE, layout.LOCK, 1)


def clean(files: Files, me: Identity, unused_for: float, most: int | None = None) -> int:
    """Remove the files without a grant for so long among `most`; how many were removed."""
    names = lock_files(files, most)
    return sum(_clean_one(files, name, me, unused_for) for name in names)


def in_passing(files: Files, me: Identity) -> None:
    """Now and then, when files are made, look at some and remove the unused."""
    files.created = 0
    with suppress(OSError):
        clean(files, me, UNUSED_FOR, AT_ONCE)


def lock_files(files: Files, most: int | None = None) -> list[str]:
    return files.folder.names((LOCKS, SEMAPHORES), most)


def in_progress(fd: int) -> bool:
    """Whether what refused us was a cleaner, which nobody should call busy."""
    return kernel.start_in_the_way(fd, _THE_LOCK) == 0


def _clean_one(files: Files, name: str, me: Identity, unused_for: float) -> bool:
    with suppress(OSError, BackendError):
        about = files.folder.about(name)
        if about.st_mtime > time.time() - unused_for or not files.folder.may_remove(about):
            return False
        file = files.open_existing(name)
        if file is not None:
            try:
                return _remove(file, me, unused_for)
            finally:
                kernel.drop_all(file.fd)
                descriptors.close(file.fd)
    return False


def _remove(file: LockFile, me: Identity, unused_for: float) -> bool:
    if not kernel.take(file.fd, WRITE, 0, END):
        return False
    about, head = os.fstat(file.fd), os.pread(file.fd, layout.HEAD, 0)
    last = layout.decode(head) or layout.BLANK
    if layout.foreign(head) or about.st_mtime > time.time() - unused_for:
        return False
    # While its number is ahead of the clock, the file keeps the fence from going back (S11).
    if ahead_of_clock(last.raw) or slots.parked(file.fd, last, me):
        return False
    burying.remove(file)
    return True
