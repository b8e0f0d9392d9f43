"""The kernel's open-file-description locks: take, convert, drop and look, never wait (L1).

`fcntl.lockf` makes the older kind, which belongs to the process and is dropped by closing any other
descriptor of the file; so `struct flock` is packed by hand. Two threads that share a descriptor are
one owner to the kernel: every claim has a descriptor of its own.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from contextlib import suppress
from errno import EACCES, EAGAIN, EINVAL
from typing import Final, NamedTuple

READ: Final = fcntl.F_RDLCK
WRITE: Final = fcntl.F_WRLCK
_FREE: Final = fcntl.F_UNLCK
END: Final = 0
"""As a length: to the end of everything."""

_FLOCK = struct.Struct("hhqqi4x")
_KIND: Final = 0 if sys.byteorder == "little" else 1
"""The byte of the first field that tells the kind."""
_START = struct.Struct("8xq16x")
_fcntl = fcntl.fcntl
_SETLK: Final[int] = getattr(fcntl, "F_OFD_SETLK", -1)
_GETLK: Final[int] = getattr(fcntl, "F_OFD_GETLK", -1)
_NAMELESS: Final[int] = getattr(os, "O_TMPFILE", 0) | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC
"""How a file without a name is opened, in the directory that is given as its path."""


class LockedRange(NamedTuple):
    """A lock that somebody else has."""

    kind: int
    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length if self.length else 2**63 - 1


def asked(kind: int, start: int, length: int) -> bytes:
    """A request, packed: what is asked for often is packed once."""
    return _FLOCK.pack(kind, 0, start, length, 0)


_EVERYTHING = asked(_FREE, 0, END)


def take(fd: int, kind: int, start: int, length: int) -> bool:
    """Lock these bytes now, or change how they are locked; False if somebody is in the way."""
    return take_asked(fd, asked(kind, start, length))


def take_asked(fd: int, request: bytes) -> bool:
    try:
        _fcntl(fd, _SETLK, request)
    except OSError as error:
        if error.errno in (EAGAIN, EACCES):
            return False
        raise
    return True


def drop(fd: int, start: int, length: int) -> None:
    _fcntl(fd, _SETLK, asked(_FREE, start, length))


def drop_all(fd: int) -> None:
    """Do this before a descriptor is put away: a copy in a child may outlive the close (S17)."""
    _fcntl(fd, _SETLK, _EVERYTHING)


def drop_all_and_look(fd: int, request: bytes) -> int | None:
    """`drop_all`, then `start_in_the_way`."""
    _fcntl(fd, _SETLK, _EVERYTHING)
    found = _fcntl(fd, _GETLK, request)
    if found[_KIND] == _FREE:
        return None
    start: int = _START.unpack(found)[0]
    return start


def in_the_way(fd: int, kind: int, start: int, length: int) -> LockedRange | None:
    """Some lock of another descriptor that conflicts; not always the first one."""
    return in_the_way_asked(fd, asked(kind, start, length))


def in_the_way_asked(fd: int, request: bytes) -> LockedRange | None:
    found = _fcntl(fd, _GETLK, request)
    if found[_KIND] == _FREE:
        return None
    kind, _, start, length, _ = _FLOCK.unpack(found)
    return LockedRange(kind, start, length)


def start_in_the_way(fd: int, request: bytes) -> int | None:
    """Return only where that lock begins, for callers that must be fast."""
    found = _fcntl(fd, _GETLK, request)
    if found[_KIND] == _FREE:
        return None
    start: int = _START.unpack(found)[0]
    return start


def works(directory: str) -> bool:
    """Whether two descriptors of one file exclude each other here: asked of the system, live.

    The names being there says little: macOS has them with another layout, and a file system may
    refuse or ignore them.
    """
    if _SETLK < 0 or struct.calcsize("P") != 8:
        return False
    with suppress(OSError):  # no such files here, or no /proc; other troubles come up again below
        fd = os.open(directory, _NAMELESS, 0o600)
        try:
            return _exclude_each_other(fd, f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    import tempfile  # only here: it takes long to import

    with tempfile.NamedTemporaryFile(dir=directory) as file:
        return _exclude_each_other(file.fileno(), file.name)


def _exclude_each_other(one: int, path: str) -> bool:
    other = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not take(one, WRITE, 1, 1) or take(other, WRITE, 1, 1):
            return False
        if in_the_way(other, WRITE, 0, END) != LockedRange(WRITE, 1, 1):
            return False
        drop_all(one)
        return in_the_way(other, WRITE, 0, END) is None and take(other, WRITE, 1, 1)
    except OSError as error:
        if error.errno == EINVAL:
            return False
        raise
    finally:
        os.close(other)
