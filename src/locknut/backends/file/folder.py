"""The directory of lock files as this process has it open: files are found through its descriptor.

A directory can be moved away or removed under a running process, and whoever makes it anew decides
who may write to it. So before a file is opened the path must still lead to the directory that was
checked; if it does not, the directory is looked up, made and checked again like the first time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from locknut.backends.file import this_process
from locknut.backends.file.directory import Directory, open_again
from locknut.errors import BackendError

EVERY: Final = 32
"""Files made between two looks for files that nobody needs any more, at the least."""
PART: Final = 64
"""Where there are many files, so many made as this part of them: a look lists the whole directory,
and would otherwise cost the square of their number."""
FOR_EACH: Final = 2
"""So many files are looked at for each that was made: there will never be more and more."""
UNUSED_FOR: Final = 24 * 3600.0
"""Seconds since its last grant after which a file is removed in passing."""
NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd
_OPENS: Final = 100


class Folder:
    """Everything that is done by name happens here, one thread at a time."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._fd: int | None = None
        self.pause = EVERY
        """So many files may be made until the next look for those that nobody needs."""
        # Re-entrant: a signal handler may want a lock while its thread is in here.
        self._mutex = threading.RLock()

    def path(self, name: str) -> str:
        return os.path.join(self.directory.path, name)

    def names(self, endings: tuple[str, ...], most: int | None = None) -> list[str]:
        """The files with these endings; at most `most`, from anywhere among them."""
        with self._mutex:
            here = self._current() if _BY_DESCRIPTOR else self.directory.path
            names = [name for name in os.listdir(here) if name.endswith(endings)]
        self.pause = max(EVERY, len(names) // PART)
        if most is None or len(names) <= most:
            return sorted(names)
        begin = int.from_bytes(os.urandom(4), "little") % len(names)
        return (names + names)[begin : begin + most]

    def open(self, name: str) -> int | None:
        """A descriptor of this file; None if there is none."""
        with self._mutex, suppress(FileNotFoundError), self._named(name):
            found, here = self._at(name)
            return this_process.open_file(found, os.O_RDWR | NOFOLLOW, dir_fd=here)
        return None

    def open_or_create(self, name: str) -> tuple[int, bool]:
        """A descriptor, and whether the file is new."""
        with self._mutex, self._named(name):
            found, here = self._at(name)
            return _open_or_create(found, self.directory.file_mode, here)

    def about(self, name: str) -> os.stat_result:
        with self._mutex:
            found, here = self._at(name)
            return os.stat(found, dir_fd=here, follow_symlinks=False)

    def unlink(self, name: str) -> None:
        with self._mutex, suppress(FileNotFoundError):
            found, here = self._at(name)
            os.unlink(found, dir_fd=here)

    def replace(self, name: str, content: bytes, like: os.stat_result) -> bool:
        """Put a new file with this content in place of the old one, in one step.

        False if the new one could not be given to the old one's owner and group: it might shut out
        people who could use the old one.
        """
        draft = name + ".new"
        with self._mutex:
            self.unlink(draft)  # of somebody who was killed here; the caller is alone with the name
            (new, here), (old, _) = self._at(draft), self._at(name)
            fd = _create(new, like.st_mode & 0o666, here)
            done = False
            try:
                if _give(fd, like) and os.write(fd, content) == len(content):
                    os.rename(new, old, src_dir_fd=here, dst_dir_fd=here)
                    done = True
            finally:
                this_process.close_fd(fd)
                if not done:
                    self.unlink(draft)
            return done

    def may_remove(self, about: os.stat_result) -> bool:
        """In a sticky directory a file's name belongs to its owner and the directory's."""
        directory = self.directory
        return not directory.sticky or os.geteuid() in (0, directory.owner, about.st_uid)

    def close(self) -> None:
        with self._mutex:
            used, self._fd = self._fd, None
            if used is not None:
                this_process.close_fd(used)

    def forget(self) -> None:
        """In a forked child: the descriptor is closed already."""
        self._mutex = threading.RLock()
        self._fd = None

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """An error says where the file is."""
        try:
            yield
        except OSError as error:
            error.filename = self.path(name)
            raise

    def _at(self, name: str) -> tuple[str, int | None]:
        """How a file is found: within the descriptor, where the system can do that."""
        return (name, self._current()) if _BY_DESCRIPTOR else (self.path(name), None)

    def _current(self) -> int:
        if self._fd is None or not self._leads_here():
            self.close()
            self.directory, self._fd = open_again(self.directory)
        return self._fd

    def _leads_here(self) -> bool:
        try:
            about = os.stat(self.directory.path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (about.st_dev, about.st_ino) == (self.directory.device, self.directory.inode)


def _open_or_create(path: str, mode: int, dir_fd: int | None) -> tuple[int, bool]:
    # First without O_CREAT: in a sticky directory it fails on others' files (protected_regular).
    for _ in range(_OPENS):
        with suppress(FileNotFoundError):
            return this_process.open_file(path, os.O_RDWR | NOFOLLOW, dir_fd=dir_fd), False
        with suppress(FileExistsError):
            return _create(path, mode, dir_fd), True
    raise BackendError(f"{path} comes and goes", backend="file")


def _create(path: str, mode: int, dir_fd: int | None) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | NOFOLLOW
    fd = this_process.open_file(path, flags, mode, dir_fd=dir_fd)
    if mode & 0o077:
        os.fchmod(fd, mode)  # whatever the umask: the directory says who shares
    return fd


def _give(fd: int, like: os.stat_result) -> bool:
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) == (like.st_uid, like.st_gid):
        return True
    with suppress(PermissionError):
        os.fchown(fd, like.st_uid if os.geteuid() == 0 else -1, like.st_gid)
        return True
    return False
