"""Removing lock files nobody needs, without ever letting two in.

The classic bug: A holds, B has the file open and waits, A unlinks and unlocks; B locks the orphan,
C makes and locks a new file, and both hold. Here a process removes a file only after it has
locked all of it (nobody holds or waits), buries it first (everybody reads the grave under the lock,
before a grant counts), and removes it only while the path still leads to it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Final

from locknut.backends.file import burial, file_layout, holder_slots, ofd_locks, this_process
from locknut.backends.file.directory import LOCKS, SEMAPHORES
from locknut.backends.file.file_layout import ahead_of_clock
from locknut.backends.file.folder import FOR_EACH, UNUSED_FOR
from locknut.backends.file.lock_files import Files, LockFile
from locknut.backends.file.ofd_locks import END, WRITE
from locknut.backends.file.this_process import ProcessIdentity
from locknut.errors import BackendError, LocknutError

_THE_LOCK: Final = ofd_locks.asked(WRITE, file_layout.LOCK, 1)


def clean(files: Files, me: ProcessIdentity, unused_for: float, most: int | None = None) -> int:
    """Look at `most` files, remove those without a grant for `unused_for` seconds; return how
    many.
    """
    names = lock_file_names(files, most)
    return sum(_clean_one(files, name, me, unused_for) for name in names)


def clean_some(files: Files, me: ProcessIdentity) -> None:
    """Look at some files now and then, when files are made, and remove the unused ones."""
    most, files.created = FOR_EACH * files.created, 0
    with suppress(OSError, LocknutError):  # whoever makes the file does not fail for others
        clean(files, me, UNUSED_FOR, most)


def lock_file_names(files: Files, most: int | None = None) -> list[str]:
    return files.folder.names((LOCKS, SEMAPHORES), most)


def in_progress(fd: int) -> bool:
    """Return whether a cleanup refused us: then the lock is not busy."""
    return ofd_locks.start_in_the_way(fd, _THE_LOCK) == 0


def _clean_one(files: Files, name: str, me: ProcessIdentity, unused_for: float) -> bool:
    with suppress(OSError, BackendError):
        about = files.folder.about(name)
        if about.st_mtime > time.time() - unused_for or not files.folder.may_remove(about):
            return False
        file = files.open_existing(name)
        if file is not None:
            try:
                return _remove(file, me, unused_for)
            finally:
                ofd_locks.drop_all(file.fd)
                this_process.close_fd(file.fd)
    return False


def _remove(file: LockFile, me: ProcessIdentity, unused_for: float) -> bool:
    if not ofd_locks.take(file.fd, WRITE, 0, END):
        return False
    about, head = os.fstat(file.fd), os.pread(file.fd, file_layout.HEAD, 0)
    last = file_layout.decode(head) or file_layout.BLANK
    if file_layout.foreign(head) or about.st_mtime > time.time() - unused_for:
        return False
    # While its number is ahead of the clock, the file keeps the fence from going back (S11).
    if ahead_of_clock(last.raw) or holder_slots.detached(file.fd, last, me):
        return False
    burial.remove(file)
    return True
