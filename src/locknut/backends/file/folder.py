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

from locknut.backends.file import descriptors
from locknut.backends.file.directory import Directory, open_again
from locknut.errors import BackendError

NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_OPENS: Final = 100


class Folder:
    """Everything that is done by name happens here, one thread at a time."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._fd: int | None = None
        # Re-entrant: a signal handler may want a lock while its thread is in here.
        self._mutex = threading.RLock()

    def path(self, name: str) -> str:
        return os.path.join(self.directory.path, name)

    def names(self) -> list[str]:
        with self._mutex:
            return os.listdir(self._current())

    def open(self, name: str) -> int | None:
        """A descriptor of this file; None if there is none."""
        with self._mutex, suppress(FileNotFoundError), self._named(name):
            return descriptors.open_file(name, os.O_RDWR | NOFOLLOW, dir_fd=self._current())
        return None

    def open_or_create(self, name: str) -> tuple[int, bool]:
        """A descriptor, and whether the file is new."""
        with self._mutex, self._named(name):
            return open_or_create(name, self.directory.file_mode, dir_fd=self._current())

    def about(self, name: str) -> os.stat_result:
        with self._mutex:
            return os.stat(name, dir_fd=self._current(), follow_symlinks=False)

    def unlink(self, name: str) -> None:
        with self._mutex, suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._current())

    def replace(self, name: str, content: bytes, like: os.stat_result) -> bool:
        """Put a new file with this content in place of the old one, in one step.

        False if the new one could not be given to the old one's owner and group: it might shut out
        people who could use the old one.
        """
        draft = name + ".new"
        with self._mutex:
            here = self._current()
            self.unlink(draft)  # of somebody who was killed here; the caller is alone with the name
            fd = _create(draft, like.st_mode & 0o666, here)
            done = False
            try:
                if _give(fd, like) and os.write(fd, content) == len(content):
                    os.rename(draft, name, src_dir_fd=here, dst_dir_fd=here)
                    done = True
            finally:
                descriptors.close(fd)
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
                descriptors.close(used)

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


def open_or_create(path: str, mode: int, dir_fd: int | None = None) -> tuple[int, bool]:
    """A descriptor, and whether the file is new."""
    # First without O_CREAT: in a sticky directory it fails on others' files (protected_regular).
    for _ in range(_OPENS):
        with suppress(FileNotFoundError):
            return descriptors.open_file(path, os.O_RDWR | NOFOLLOW, dir_fd=dir_fd), False
        with suppress(FileExistsError):
            return _create(path, mode, dir_fd), True
    raise BackendError(f"{path} comes and goes", backend="file")


def _create(path: str, mode: int, dir_fd: int | None) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | NOFOLLOW
    fd = descriptors.open_file(path, flags, mode, dir_fd=dir_fd)
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
