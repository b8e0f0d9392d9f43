"""The newest fence that entered a file, kept beside it so that no crash can lose it or let two in.

`data.json.fence` has two lines of fixed width, each a number and its checksum. A new number goes to
the line with the smaller one and is synced before anybody acts on it: whatever a crash tears, the
other line stands. The same file carries the kernel lock under which every step happens. It is never
replaced or removed, so all who lock it lock the same thing, and the kernel frees the lock of a
process that dies in the middle.
"""

from __future__ import annotations

import os
import stat
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from locknut.errors import AcquireTimeout, BackendError, ConfigurationError, Unsupported
from locknut.runtimes.descriptors import away_from_standard

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows
    fcntl = None  # type: ignore[assignment]

LINE = 48
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0002, 0.02

_inherited: set[int] = set()
_fork_guard = threading.Lock()
"""Descriptors that carry a kernel lock right now; a forked child closes its copies (S17)."""
_process = object()


def this_process() -> object:
    """Something that is the same within a process, and another in its forked children."""
    return _process


class FenceRecord:
    """An open, locked record: read and written only inside `locked`."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def newest(self) -> int:
        """The newest fence that entered, 0 if none did."""
        numbers = [_number(line) for line in self._lines()]
        known = [number for number in numbers if number is not None]
        if known:
            return max(known)
        if any(line.strip(b"\0") for line in self._lines()):
            raise BackendError(
                f"{self._path} is damaged, so it is not known which fences are old; when no old "
                "holder can be alive any more, remove it"
            )
        return 0

    def enter(self, fence: int) -> None:
        """Make `fence` the newest, on the disk, before returning."""
        numbers = [_number(line) or 0 for line in self._lines()]
        line = numbers.index(min(numbers))
        os.pwrite(self._descriptor, _text(fence), line * LINE)
        os.fsync(self._descriptor)

    def _lines(self) -> tuple[bytes, bytes]:
        both = os.pread(self._descriptor, 2 * LINE, 0)
        return both[:LINE], both[LINE:]


def _text(fence: int) -> bytes:
    number = f"locknut fence {fence:020d}"
    return f"{number} {zlib.crc32(number.encode()):08x}".ljust(LINE - 1).encode() + b"\n"


def _number(line: bytes) -> int | None:
    words = line.split()
    if len(words) != 4 or not words[2].isdigit():
        return None
    number = int(words[2])
    return number if line == _text(number) else None


@contextmanager
def locked(name: str, folder: int, path: str, patience: float) -> Iterator[FenceRecord]:
    """The record `name` in the open `folder`, with the kernel lock of all steps held."""
    if fcntl is None:  # pragma: no cover - Windows
        raise Unsupported("the guard for files needs flock, which this system does not have")
    descriptor = _open(name, folder, path)
    owner = _process
    try:
        _lock(descriptor, path, patience)
        if not _found_by(name, folder, descriptor):  # locked what nobody else will ever find
            raise BackendError(f"{path} was removed meanwhile; start this step again")
        yield FenceRecord(descriptor, path)
    finally:
        if _process is owner:  # a child forked in the middle has closed its copy already
            _close(descriptor)


def _found_by(name: str, folder: int, descriptor: int) -> bool:
    """Whether the name still leads to this very file: it may have been removed, or moved away."""
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return os.path.samestat(found, os.fstat(descriptor))
    return False


def _open(name: str, folder: int, path: str) -> int:
    with _fork_guard:
        try:
            descriptor = _open_or_make(name, folder)
        except OSError as problem:
            raise BackendError(f"cannot open {path}: {problem.strerror}") from problem
        _inherited.add(descriptor)
    try:
        _refuse_planted(descriptor, folder, path)
    except BaseException:
        _close(descriptor)
        raise
    return descriptor


def _open_or_make(name: str, folder: int) -> int:
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    while True:
        with suppress(FileNotFoundError):
            return away_from_standard(os.open(name, flags, dir_fd=folder))
        with suppress(FileExistsError):
            made = os.open(name, flags | os.O_CREAT | os.O_EXCL, 0o664, dir_fd=folder)
            if os.geteuid() == 0:
                # What root makes among somebody's files is theirs, or they could not use it.
                around = os.fstat(folder)
                os.fchown(made, around.st_uid, around.st_gid)
            return away_from_standard(made)


def _refuse_planted(descriptor: int, folder: int, path: str) -> None:
    """In a folder that others may write to, somebody could have left another record there."""
    record, around = os.fstat(descriptor), os.fstat(folder)
    if not stat.S_ISREG(record.st_mode) or record.st_nlink != 1:
        raise ConfigurationError(f"{path} is not a plain file of its own; remove it")
    if record.st_uid not in {os.geteuid(), around.st_uid, 0}:
        raise ConfigurationError(f"{path} belongs to user {record.st_uid}, a stranger; remove it")
    if record.st_mode & stat.S_IWOTH and around.st_mode & stat.S_ISVTX:
        raise ConfigurationError(f"{path} can be written by everybody; chmod o-w {path}")


def _lock(descriptor: int, path: str, patience: float) -> None:
    """Steps are short, so a busy record is asked again and again; a stopped holder ends that."""
    until = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise AcquireTimeout(
                    f"{path}: somebody has been in the middle of a step for {patience:g} s; "
                    "see /proc/locks for who (a process that is stopped, perhaps)"
                ) from None
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            return


def _close(descriptor: int) -> None:
    """Unlock, then close: a copy in a forked child must not keep the lock."""
    with _fork_guard:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        _inherited.discard(descriptor)
        os.close(descriptor)


def _in_child() -> None:
    global _process  # noqa: PLW0603 -- that is what has changed
    _process = object()
    for descriptor in _inherited:
        os.close(descriptor)
    _inherited.clear()
    _fork_guard.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork_guard.acquire,
        after_in_parent=_fork_guard.release,
        after_in_child=_in_child,
    )
