"""Opening lock files, keeping idle ones open, and never trusting a file that is dead or foreign.

A file can be unlinked while others have it open. A lock on such an orphan is worth nothing, because
the next process makes a new file. So a grant counts only after the grave in the file was read under
the lock, and our own code always sets the grave before it unlinks. If somebody else removes or
moves the file, we notice that the path leads elsewhere.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from typing import Final

from locknut.backends.file import file_layout, this_process
from locknut.backends.file.digests import blake2b
from locknut.backends.file.directory import SEMAPHORES, Directory, file_name
from locknut.backends.file.file_layout import ALIVE, BLANK, GONE, GRAVE, HEAD, Record
from locknut.backends.file.folder import EVERY, Folder
from locknut.backends.file.outcomes import Orphaned
from locknut.core.values import Mode
from locknut.errors import BackendError

IDLE_NAMES: Final = 128
IDLE_SPARE: Final = 32
_LOOK_EVERY: Final = 5_000_000
"""Nanoseconds between two checks of where the path of a file in constant use leads. Missing a move
for that time is no worse than a file that is moved while somebody holds it."""
_PERMIT: Final = Mode.PERMIT


FileId = str | tuple[str, bool]
"""Names a file among those open: its key alone (a text keeps its hash), or (key, True) for a
semaphore."""


def _file_id(key: str, semaphore: bool) -> FileId:
    return (key, True) if semaphore else key


class LockFile:
    """One descriptor of one lock file, for one claim at a time."""

    __slots__ = (
        "bell",
        "checked",
        "fd",
        "file_id",
        "folder",
        "hint",
        "inode",
        "key",
        "name",
        "path",
        "raw",
        "record",
        "seen",
        "semaphore",
        "until",
    )

    def __init__(self, fd: int, folder: Folder, name: str, key: str, about: os.stat_result) -> None:
        directory = folder.directory
        self.fd = fd
        self.folder = folder
        self.name = name
        self.path = folder.path(name)
        self.inode = (about.st_dev, about.st_ino)
        self.key = key
        self.semaphore = name.endswith(SEMAPHORES)
        self.file_id = _file_id(key, self.semaphore)
        self.bell = bell_name(f"{directory.device:x}-{directory.inode:x}-", name)
        self.seen: bytes | None = None
        self.record: Record | None = None
        """What `seen` says, once somebody asked."""
        self.raw = 0
        self.until = 0
        self.checked = 0
        self.hint = 0

    def look(self, now: int) -> None:
        """Read the last grant: its number and what may be detached, in `raw` and `until`.

        Raises Orphaned if this file is dead. What this descriptor saw last is not decoded again.
        """
        data = os.pread(self.fd, HEAD, 0)
        if data != self.seen:
            self._study(data)
        if not 0 <= now - self.checked < _LOOK_EVERY and self._moved():
            raise Orphaned

    def read(self, now: int) -> Record:
        """The same as `look`; returns the whole record."""
        self.look(now)
        if self.record is None:
            self.record = file_layout.decode(self.seen or b"") or BLANK
        return self.record

    def glance(self) -> Record:
        """Return the last grant without holding any lock: it may be torn or out of date."""
        return file_layout.decode(os.pread(self.fd, file_layout.RECORD, 0)) or BLANK

    def write(self, record: Record) -> None:
        """One write of fixed width: torn or lost, the clock decides the next fence (U14)."""
        self.write_plain(file_layout.encode(record), record.raw)
        self.until = record.until
        self.record = record

    def write_plain(self, data: bytes, raw: int) -> None:
        """A record with nothing detached, encoded."""
        os.pwrite(self.fd, data, 0)
        self.seen = data + ALIVE
        self.raw = raw
        self.until = 0
        self.record = None

    def grave(self) -> int:
        """0 in a file that is in use."""
        data = os.pread(self.fd, 8, GRAVE)
        return 0 if data == ALIVE else int.from_bytes(data, "little")

    def mark(self, grave: bytes) -> None:
        os.pwrite(self.fd, grave, GRAVE)

    def dead(self) -> bool:
        """Whether whatever is locked in this file counts for nothing."""
        return self.grave() != 0 or self._moved()

    def ended(self, raw: int) -> bool:
        """Whether the hold with this number was ended by force: a grave has the number of the last
        grant that it buries, and later grants are not meant.
        """
        grave = self.grave()
        if grave and (grave == GONE or grave >= raw):
            return True
        now = time.time_ns()
        return not 0 <= now - self.checked < _LOOK_EVERY and self._moved()

    def lost(self, raw: int) -> bool:
        """The same as `ended`, but the path is compared in any case."""
        self.checked = 0
        return self.ended(raw)

    def linked(self) -> bool:
        """Whether the path still leads to this very file."""
        return leads_to(self.path, self.inode)

    def _moved(self) -> bool:
        """Whether the file was removed, or it or its directory was moved: the next claim makes
        another file.
        """
        now = time.time_ns()
        if not self.linked():
            return True
        self.checked = now
        return False

    def _study(self, data: bytes) -> None:
        numbers = file_layout.numbers(data)
        if numbers is None or data[GRAVE:] != ALIVE:
            self._doubt(data)
        self.raw, self.until = numbers or (0, 0)
        self.seen = data
        self.record = None

    def _doubt(self, data: bytes) -> None:
        """There is no sound record of a file in use: the file is dead, or foreign, or new. Or the
        record is torn: then the clock gives the next number.
        """
        if data[GRAVE:] not in (ALIVE, b""):
            raise Orphaned
        if file_layout.foreign(data):
            raise foreign_file(self.path, self.key)
        if not any(data):
            self._begin()

    def _begin(self) -> None:
        """The first grant in a new file writes down its key, for people who list the locks.

        A lock file may have a second name (backups by hard links). An empty file with two names may
        be anybody's.
        """
        if os.fstat(self.fd).st_nlink > 1:
            message = f"{self.path} is empty and has another name elsewhere: remove it"
            raise BackendError(message, key=self.key, backend="file")
        os.pwrite(self.fd, bytes(file_layout.HEAD), 0)
        os.pwrite(self.fd, file_layout.encode_key(self.key), file_layout.KEY)


class _NoFile(LockFile):
    """The file of a claim that is over: its descriptor may belong to another claim by now."""

    __slots__ = ()

    def __init__(self) -> None:
        self.fd = -1

    def grave(self) -> int:
        return GONE


NO_FILE: Final = _NoFile()
OUTSIDE_FILE: Final = _NoFile()
"""The file of a claim that waits in the waiting room, outside of the line."""


class Files:
    """The lock files of one directory that this process has open.

    One idle descriptor per name is kept in a dict, without a mutex: taking it out and putting it in
    are single steps. Names used by several at once have spare ones.
    """

    def __init__(self, directory: Directory) -> None:
        self.folder = Folder(directory)
        self.created = os.urandom(1)[0] % EVERY  # processes that make one file count too
        self._idle: dict[FileId, LockFile] = {}
        self._spare: list[LockFile] = []
        self._mutex = threading.RLock()

    def take(self, key: str, mode: Mode) -> LockFile | None:
        """Return a descriptor of this key's file that nobody else in the process uses, if one is
        open.
        """
        file_id = (key, True) if mode is _PERMIT else key
        return self._idle.pop(file_id, None) or (self._take_spare(file_id) if self._spare else None)

    def give_back(self, file: LockFile) -> None:
        """Keep it for the next claim; those used longest ago are closed when there are too many."""
        if self._idle.setdefault(file.file_id, file) is not file:
            with self._mutex:
                self._spare.append(file)
        if len(self._idle) > IDLE_NAMES or len(self._spare) > IDLE_SPARE:
            self._close_oldest()

    def open(self, key: str, mode: Mode) -> LockFile:
        name = file_name(key, mode)
        fd, new = self.folder.open_or_create(name)
        self.created += new
        return self._lock_file(fd, name, key)

    def open_existing(self, name: str) -> LockFile | None:
        """Open a file by its name to inspect, break or clean it; never create one."""
        fd = self.folder.open(name)
        return None if fd is None else self._lock_file(fd, name, None)

    def _lock_file(self, fd: int, name: str, key: str | None) -> LockFile:
        try:
            about = os.fstat(fd)
            check_plain(about, self.folder.path(name))
            if key is None:
                key = (
                    file_layout.decode_key(os.pread(fd, file_layout.KEY_ROOM, file_layout.KEY))
                    or name
                )
            return LockFile(fd, self.folder, name, key, about)
        except BaseException:
            this_process.close_fd(fd)
            raise

    def close_idle(self) -> bool:
        """Return whether there were any."""
        some = bool(self._idle or self._spare)
        while self._idle or self._spare:
            self._close_oldest()
        return some

    def forget(self) -> None:
        """In a forked child: the descriptors are closed already."""
        self.folder.forget()
        self._mutex = threading.RLock()
        self._idle = {}
        self._spare = []

    def _take_spare(self, file_id: FileId) -> LockFile | None:
        with self._mutex:
            for at, file in enumerate(self._spare):
                if file.file_id == file_id:
                    return self._spare.pop(at)
        return None

    def _close_oldest(self) -> None:
        with self._mutex:
            spare = self._spare.pop(0) if self._spare else None
        for file_id in list(self._idle)[:1] if spare is None else ():
            spare = self._idle.pop(file_id, None)
        if spare is not None:
            this_process.close_fd(spare.fd)


def bell_name(where: str, name: str) -> str:
    """What the bells of this file's waiters are called; the same when the file is made anew."""
    return blake2b((where + name).encode(), digest_size=12).hexdigest()


def leads_to(path: str, inode: tuple[int, int]) -> bool:
    """Whether the path leads to the file with this device and inode."""
    try:
        about = os.stat(path, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # we may not look any more: that does not end a hold
    return (about.st_dev, about.st_ino) == inode


def check_plain(about: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise BackendError(f"{path} is in the way of a lock file: remove it", backend="file")


def foreign_file(path: str, key: str) -> BackendError:
    message = (
        f"{path} does not begin like a lock file, so something else wrote to it: remove it"
        " when no process uses it (see: fuser)"
    )
    return BackendError(message, key=key, backend="file")
