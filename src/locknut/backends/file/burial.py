"""Burying a lock file: taking its name away, and the note that tells the holders why.

A file is buried when its holders are ended by force, or when nobody needs it:

1. The grave is written first, by a process that is alone with this file (under META, or under the
   one mutex of the flock engine).
2. A grant reads the grave after it has written its record, and a burial reads the record after it
   has written the grave. So one of the two sees the other: either the grant does not count, or the
   burial is called off.
3. A broken file is replaced by a new one that carries its number on.
4. A process that finds a burial half done, because the one that began it was killed, finishes it.

The note says who broke a lock and why. It stands between the grave and the key and decides nothing.
A holder that has lost can always read it, because it still has the old file open. The note names
the grants it is about, so nobody takes an older note for its own; a torn note counts as none.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol
from zlib import crc32

from locknut.backends.file import file_layout, flock
from locknut.backends.file.file_layout import ALIVE, GONE, HEAD, KEY, REMOVED, Record
from locknut.backends.file.folder import Folder
from locknut.errors import BackendError

_FIELDS = struct.Struct("<QQH")
_CRC = struct.Struct("<I")
_WIDTH: Final = KEY - HEAD
_ROOM: Final = _WIDTH - _FIELDS.size - _CRC.size


class BuriableFile(Protocol):
    """A lock file of either engine."""

    fd: int
    folder: Folder
    name: str
    path: str
    key: str

    def glance(self) -> Record: ...
    def grave(self) -> int: ...
    def mark(self, grave: bytes) -> None: ...
    def linked(self) -> bool: ...


def bury(file: BuriableFile, last: int, *, newcomers_too: bool) -> bool:
    """End every hold up to the one numbered `last`; return False if another one was granted since.

    With `newcomers_too` that one is ended as well.
    """
    _refuse_if_sticky(file)
    while True:
        file.mark(file_layout.grave(last))
        newest = file.glance().raw
        if newest <= last:
            break
        if not newcomers_too:
            _call_off(file)
            return False
        last = newest
    _take_name(file, last)
    return True


def remove(file: BuriableFile) -> None:
    """Remove a file. The caller has locked all of it, so nobody holds it or waits for it."""
    file.mark(REMOVED)
    _take_name(file, GONE)


def finish(file: BuriableFile) -> None:
    """Finish a burial whose process may have been killed before the name was gone."""
    grave = file.grave()
    if not grave or not file.linked():
        return
    if grave != GONE and file.glance().raw > grave:
        _call_off(file)  # its holder came in before the grave was there, and is not meant
    else:
        _take_name(file, grave)


def _refuse_if_sticky(file: BuriableFile) -> None:
    """A break that must fail is refused before the holder reads anything of it."""
    if not file.folder.may_remove(os.fstat(file.fd)):
        message = f"in a sticky directory only the owner of {file.path} can break this lock"
        raise BackendError(message, key=file.key, backend="file")


def _take_name(file: BuriableFile, raw: int) -> None:
    """Take the name away if it still leads to this file. If that fails, the file stays in use: that
    is safe, because the kernel still has its locks.
    """
    try:
        if file.linked() and not (raw != GONE and _replaced(file, raw)):
            file.folder.unlink(file.name)
    except OSError:
        _call_off(file)
        raise


def _replaced(file: BuriableFile, raw: int) -> bool:
    content = file_layout.heir(raw, file.key)
    try:
        return file.folder.replace(file.name, content, os.fstat(file.fd))
    except OSError:  # no room for a new file: the clock carries the number on
        return False


def _call_off(file: BuriableFile) -> None:
    file.mark(ALIVE)


class SentNote:
    """Whether the note stays: nobody else may find it if nothing was broken."""

    stays = False


@contextmanager
def note_to_holders(fd: int, first: int, last: int, text: str) -> Iterator[SentNote]:
    """Within, the holders of the grants from `first` to `last` learn of their loss. Only one
    process at a time does this: under META, or in the flock engine under its one mutex.

    A note that cannot be written keeps nobody from breaking a lock.
    """
    sent = SentNote()
    with suppress(OSError):
        _write_note(fd, first, last, text)
    try:
        yield sent
    finally:
        if not sent.stays:
            with suppress(OSError):
                _write_note(fd, 0, 0, "")


def _write_note(fd: int, first: int, last: int, text: str) -> None:
    """An empty text takes an old note away."""
    data = text.encode("utf-8", "replace")[:_ROOM]
    body = _FIELDS.pack(first, last, len(data)) + data
    note = body + _CRC.pack(crc32(body)) if data else b""
    if note or _parse_note(fd) is not None:
        flock.write_at(fd, note.ljust(_WIDTH, b"\0"), HEAD)


def read_note(fd: int, raw: int) -> str:
    """The note to the holder of this grant; empty if there is none, or none that can be read."""
    with suppress(OSError):  # the hold is lost all the same, and its holder must learn of that
        found = _parse_note(fd)
        if found is not None and found[0] <= raw <= found[1]:
            return found[2]
    return ""


def _parse_note(fd: int) -> tuple[int, int, str] | None:
    """The first and the last grant that the note is about, and its text."""
    data = flock.read_at(fd, _WIDTH, HEAD)
    if len(data) < _FIELDS.size + _CRC.size:
        return None
    first, last, size = _FIELDS.unpack_from(data)
    end = _FIELDS.size + size
    if not 0 < size <= _ROOM or len(data) < end + _CRC.size:
        return None
    if _CRC.unpack_from(data, end)[0] != crc32(data[:end]):
        return None
    return first, last, data[_FIELDS.size : end].decode("utf-8", "ignore")
