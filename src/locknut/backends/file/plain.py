"""What the plainer engine does with one lock file: open, read, and see who has it.

Its name is taken away as in the other engine (`burying`), under one mutex for the whole directory.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from weakref import finalize

from locknut.backends.file import burying, descriptors, layout, whole
from locknut.backends.file.directory import Directory
from locknut.backends.file.files import check_plain
from locknut.backends.file.folder import AT_ONCE, EVERY, UNUSED_FOR, Folder
from locknut.backends.file.layout import GONE, GRAVE, SHARED, Record
from locknut.backends.file.naming import stem
from locknut.backends.file.numbering import ahead_of_clock
from locknut.backends.file.outcomes import Crowded
from locknut.core.values import Holder, LockInfo, Mode
from locknut.errors import BackendError

_SUFFIX: Final = ".flock"
_STAMPING: Final = "stamping.mutex"
_TRIES: Final = 1000


class PlainFile:
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
            descriptors.close(fd)
            raise

    def glance(self) -> Record:
        """The last grant."""
        return layout.decode(whole.read_at(self.fd, layout.RECORD, 0)) or layout.BLANK

    def grave(self) -> int:
        """0 in a file that is in use."""
        return int.from_bytes(whole.read_at(self.fd, len(layout.ALIVE), GRAVE), "little")

    def mark(self, grave: bytes) -> None:
        whole.write_at(self.fd, grave, GRAVE)

    def linked(self) -> bool:
        """Whether the path still leads to this very file."""
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # we may not look any more: that does not end a hold
        return os.path.samestat(found, os.fstat(self.fd))

    def alive(self) -> bool:
        """Whether the file is not buried, and the path still leads to it."""
        return not self.grave() and self.linked()

    def holds(self, raw: int) -> bool:
        """Whether the hold with this number was not ended by force."""
        grave = self.grave()
        ended = grave and (grave == GONE or grave >= raw)
        return not ended and self.linked()

    def close(self) -> None:
        whole.unlock(self.fd)  # explicitly: a copy in a child may outlive the close (S17)
        descriptors.close(self.fd)


class PlainFiles:
    """The lock files of one directory, and the mutex of those who take names away."""

    def __init__(self, directory: Directory) -> None:
        self.folder = Folder(directory)
        self._made = random.randrange(EVERY)  # noqa: S311 -- processes that make one file count too
        finalize(self, self.folder.close).atexit = False

    def clean(self, unused_for: float = 3600.0, most: int | None = None) -> int:
        """Remove those nobody holds or had granted for so many seconds; at most so many."""
        return sum(self._clean_one(name, unused_for) for name in self.names(most))

    def names(self, most: int | None = None) -> list[str]:
        return self.folder.names((_SUFFIX,), most)

    def open(self, key: str) -> PlainFile:
        name = file_name(key)
        fd, new = self.folder.open_or_create(name)
        self._made += new
        if self._made >= EVERY:
            self._made = 0
            with suppress(OSError):
                self.clean(UNUSED_FOR, AT_ONCE)
        return PlainFile(fd, self.folder, name, key)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Where a name is taken from a file, and where readers number their grants."""
        fd, _new = self.folder.open_or_create(_STAMPING)
        mutex = PlainFile(fd, self.folder, _STAMPING)
        try:
            for _ in range(_TRIES):
                if whole.lock(fd, False):
                    break
                threading.Event().wait(0)
            else:
                raise Crowded
            yield
        finally:
            mutex.close()

    def _clean_one(self, name: str, unused_for: float) -> bool:
        with suppress(OSError, BackendError, Crowded):
            about = self.folder.about(name)
            if about.st_mtime > time.time() - unused_for or not self.folder.may_remove(about):
                return False
            file = open_existing(self.folder, name)
            if file is not None:
                try:
                    return self._remove(file, unused_for)
                finally:
                    file.close()
        return False

    def _remove(self, file: PlainFile, unused_for: float) -> bool:
        if not whole.lock(file.fd, False) or not file.alive():
            return False
        used = os.fstat(file.fd).st_mtime > time.time() - unused_for
        head = whole.read_at(file.fd, layout.HEAD, 0)
        if used or layout.foreign(head) or ahead_of_clock(file.glance().raw):
            return False
        with self.alone():
            burying.remove(file)
        return True


def file_name(key: str) -> str:
    return stem(key) + _SUFFIX


def open_existing(folder: Folder, name: str) -> PlainFile | None:
    fd = folder.open(name)
    return None if fd is None else PlainFile(fd, folder, name)


def look(folder: Folder, name: str) -> LockInfo | None:
    """By trying: for a moment the one who looks may itself be in the way."""
    file = open_existing(folder, name)
    if file is None:
        return None
    try:
        free = whole.lock(file.fd, False)
        return None if free else LockInfo(file.key, (_holder(file.glance()),))
    finally:
        file.close()


def _key_in(fd: int) -> str | None:
    return layout.decode_key(whole.read_at(fd, layout.KEY_ROOM, layout.KEY))


def _holder(record: Record) -> Holder:
    host, who, label, _ = record.told()
    mode = Mode.SHARED if record.mode == SHARED else Mode.EXCLUSIVE
    return Holder(host, record.pid, who, label, mode, record.raw, record.since / 1e6)
