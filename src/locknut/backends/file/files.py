"""Opening lock files, keeping idle ones open, and never trusting a file that is dead or foreign.

A file can be unlinked while others have it open: whoever then locks the orphan holds nothing, since
the next one to come makes a new file. So a grant counts only after the grave in the file was read
under the lock; all of ours who unlink set it first. Others' unlinks are seen by the link count.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from contextlib import suppress
from typing import Final

from locknut.backends.file import descriptors, layout
from locknut.backends.file.directory import Directory
from locknut.backends.file.layout import ALIVE, BLANK, GRAVE, HEAD, Record
from locknut.backends.file.naming import SEMAPHORES, file_name
from locknut.backends.file.outcomes import Orphaned
from locknut.core.values import Mode
from locknut.errors import BackendError

IDLE_NAMES: Final = 128
IDLE_SPARE: Final = 32
_LINKS_EVERY: Final = 5_000_000
"""Nanoseconds between two looks at the link count of a file in constant use: no worse than a file
that is removed while it is held so long."""
_PERMIT: Final = Mode.PERMIT
_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_OPENS: Final = 100


Which = str | tuple[str, bool]
"""Among those open: the key alone (a text keeps its hash) or, of a semaphore, (key, True)."""


def _which(key: str, semaphore: bool) -> Which:
    return (key, True) if semaphore else key


class LockFile:
    """One descriptor of one lock file, for one claim at a time."""

    __slots__ = (
        "bell",
        "checked",
        "fd",
        "hint",
        "key",
        "path",
        "raw",
        "record",
        "seen",
        "semaphore",
        "until",
        "which",
    )

    def __init__(self, fd: int, key: str, semaphore: bool, path: str, bell: str) -> None:
        self.fd = fd
        self.key = key
        self.semaphore = semaphore
        self.which = _which(key, semaphore)
        self.path = path
        self.bell = bell
        self.seen: bytes | None = None
        self.record: Record | None = None
        """What `seen` says, once somebody asked."""
        self.raw = 0
        self.until = 0
        self.checked = 0
        self.hint = 0

    def look(self, now: int) -> None:
        """Read the last grant: its number and what may be parked, in `raw` and `until`.

        Raises Orphaned if this file is dead. What this descriptor saw last is not decoded again.
        """
        data = os.pread(self.fd, HEAD, 0)
        if data != self.seen:
            self._study(data)
        if not 0 <= now - self.checked < _LINKS_EVERY:
            self._look_at_links(now)

    def read(self, now: int) -> Record:
        """`look`, and the whole record."""
        self.look(now)
        if self.record is None:
            self.record = layout.decode(self.seen or b"") or BLANK
        return self.record

    def glance(self) -> Record:
        """The last grant as it stands, for those who hold no lock: may be torn or out of date."""
        return layout.decode(os.pread(self.fd, layout.RECORD, 0)) or BLANK

    def write(self, record: Record) -> None:
        """One write of fixed width: torn or lost, the clock decides the next fence (U14)."""
        self.write_plain(layout.encode(record), record.raw)
        self.until = record.until
        self.record = record

    def write_plain(self, data: bytes, raw: int) -> None:
        """A record with nothing parked, encoded."""
        os.pwrite(self.fd, data, 0)
        self.seen = data + ALIVE
        self.raw = raw
        self.until = 0
        self.record = None

    def grave(self) -> int:
        """0 in a file that is in use."""
        data = os.pread(self.fd, 8, GRAVE)
        return 0 if data == ALIVE else int.from_bytes(data, "little")

    def lost(self) -> bool:
        """Whether a hold in this file ended by force."""
        if self.grave():
            return True
        try:
            self._look_at_links(time.time_ns())
        except Orphaned:
            return True
        return False

    def _look_at_links(self, now: int) -> None:
        if os.fstat(self.fd).st_nlink == 0:
            raise Orphaned
        self.checked = now

    def linked(self) -> bool:
        """Whether the path still leads to this very file."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.stat(self.path, follow_symlinks=False), os.fstat(self.fd))
        return False

    def _study(self, data: bytes) -> None:
        numbers = layout.numbers(data)
        if numbers is None or data[GRAVE:] != ALIVE:
            self._doubt(data)
        self.raw, self.until = numbers or (0, 0)
        self.seen = data
        self.record = None

    def _doubt(self, data: bytes) -> None:
        """No sound record of a file in use: it is dead, or foreign, or new; or the record is torn,
        which leaves the next number to the clock.
        """
        if data[GRAVE:] not in (ALIVE, b""):
            raise Orphaned
        if layout.foreign(data):
            message = f"{self.path} is not a lock file: move it away"
            raise BackendError(message, key=self.key, backend="file")
        if not any(data):
            self._begin()

    def _begin(self) -> None:
        """The first grant in a new file writes down whose file it is, for those who list."""
        os.pwrite(self.fd, bytes(layout.HEAD), 0)
        os.pwrite(self.fd, layout.encode_key(self.key), layout.KEY)


class _NoFile(LockFile):
    """What a claim that is over has: its descriptor may be another claim's by now."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(-1, "", False, "", "")

    def grave(self) -> int:
        return 1

    def lost(self) -> bool:
        return True


NO_FILE: Final = _NoFile()


class Files:
    """The lock files of one directory that this process has open.

    One idle descriptor per name is kept in a dict, without a mutex: taking it out and putting it in
    are single steps. Names used by several at once have spare ones.
    """

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self.created = 0
        self._idle: dict[Which, LockFile] = {}
        self._spare: list[LockFile] = []
        self._mutex = threading.Lock()
        self._place = f"{directory.device:x}-{directory.inode:x}-"

    def take(self, key: str, mode: Mode) -> LockFile | None:
        """A descriptor of this key's file that nobody else in the process uses, if one is open."""
        which = (key, True) if mode is _PERMIT else key
        return self._idle.pop(which, None) or (self._take_spare(which) if self._spare else None)

    def give_back(self, file: LockFile) -> None:
        """Keep it for the next claim; those used longest ago are closed when there are too many."""
        if self._idle.setdefault(file.which, file) is not file:
            with self._mutex:
                self._spare.append(file)
        if len(self._idle) > IDLE_NAMES or len(self._spare) > IDLE_SPARE:
            self._close_oldest()

    def open(self, key: str, mode: Mode) -> LockFile:
        name = file_name(key, mode)
        path = os.path.join(self.directory.path, name)
        fd, new = open_or_create(path, self.directory.file_mode)
        self.created += new
        try:
            check_plain(os.fstat(fd), path)
        except BaseException:
            descriptors.close(fd)
            raise
        return LockFile(fd, key, mode is _PERMIT, path, bell_name(self._place, name))

    def open_existing(self, name: str) -> LockFile | None:
        """For those who look, break and clean: by file name, never making one."""
        path = os.path.join(self.directory.path, name)
        try:
            fd = descriptors.open_file(path, os.O_RDWR | _NOFOLLOW)
        except FileNotFoundError:
            return None
        key = layout.decode_key(os.pread(fd, layout.KEY_ROOM, layout.KEY)) or name
        semaphore = name.endswith(SEMAPHORES)
        return LockFile(fd, key, semaphore, path, bell_name(self._place, name))

    def close_idle(self) -> None:
        while self._idle or self._spare:
            self._close_oldest()

    def forget(self) -> None:
        """In a forked child: the descriptors are closed already."""
        self._mutex = threading.Lock()
        self._idle = {}
        self._spare = []

    def _take_spare(self, which: Which) -> LockFile | None:
        with self._mutex:
            for at, file in enumerate(self._spare):
                if file.which == which:
                    return self._spare.pop(at)
        return None

    def _close_oldest(self) -> None:
        with self._mutex:
            spare = self._spare.pop(0) if self._spare else None
        for which in list(self._idle)[:1] if spare is None else ():
            spare = self._idle.pop(which, None)
        if spare is not None:
            descriptors.close(spare.fd)


def open_or_create(path: str, mode: int) -> tuple[int, bool]:
    """A descriptor, and whether the file is new."""
    # First without O_CREAT: in a sticky directory it fails on others' files (protected_regular).
    for _ in range(_OPENS):
        with suppress(FileNotFoundError):
            return descriptors.open_file(path, os.O_RDWR | _NOFOLLOW), False
        with suppress(FileExistsError):
            return _create(path, mode), True
    raise BackendError(f"{path} comes and goes", backend="file")


def _create(path: str, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NOFOLLOW
    try:
        fd = descriptors.open_file(path, flags, mode)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # somebody removed it
        fd = descriptors.open_file(path, flags, mode)
    if mode & 0o077:
        os.fchmod(fd, mode)  # whatever the umask: the directory says who shares
    return fd


def bell_name(place: str, name: str) -> str:
    """What the bells of this file's waiters are called; the same when the file is made anew."""
    return hashlib.blake2b((place + name).encode(), digest_size=12).hexdigest()


def check_plain(about: os.stat_result, path: str) -> None:
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        message = f"{path} is not a plain file with one name: move it away"
        raise BackendError(message, backend="file")
