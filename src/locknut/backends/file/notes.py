"""Who broke a lock and why: a note in the lock file, for the holder to read once it has lost.

The note stands between the grave and the key, where nothing else does. It decides nothing, and
whoever has lost can always read it: the holder still has the old file open. It says which grants
it is about, so that nobody takes an older note for its own, and a torn note is no note.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final
from zlib import crc32

from locknut.backends.file import whole
from locknut.backends.file.layout import HEAD, KEY

_FIELDS = struct.Struct("<QQH")
_CRC = struct.Struct("<I")
_WIDTH: Final = KEY - HEAD
_ROOM: Final = _WIDTH - _FIELDS.size - _CRC.size


class Sent:
    """Whether the note stays: nobody else may find it if nothing was broken."""

    stays = False


@contextmanager
def passed_on(fd: int, first: int, last: int, text: str) -> Iterator[Sent]:
    """Within, the holders of the grants from `first` to `last` are told their loss. Only one
    process at a time does this: under META, or in the plainer engine under its one mutex.

    A note that cannot be written keeps nobody from breaking a lock.
    """
    sent = Sent()
    with suppress(OSError):
        _write(fd, first, last, text)
    try:
        yield sent
    finally:
        if not sent.stays:
            with suppress(OSError):
                _write(fd, 0, 0, "")


def _write(fd: int, first: int, last: int, text: str) -> None:
    """An empty text takes an old note away."""
    data = text.encode("utf-8", "replace")[:_ROOM]
    body = _FIELDS.pack(first, last, len(data)) + data
    note = body + _CRC.pack(crc32(body)) if data else b""
    if note or _read(fd) is not None:
        whole.write_at(fd, note.ljust(_WIDTH, b"\0"), HEAD)


def read(fd: int, raw: int) -> str:
    """The note to the holder of this grant; empty if there is none, or none that can be read."""
    with suppress(OSError):  # the hold is lost all the same, and that must be told
        found = _read(fd)
        if found is not None and found[0] <= raw <= found[1]:
            return found[2]
    return ""


def _read(fd: int) -> tuple[int, int, str] | None:
    """The first and the last grant that the note is about, and its text."""
    data = whole.read_at(fd, _WIDTH, HEAD)
    if len(data) < _FIELDS.size + _CRC.size:
        return None
    first, last, size = _FIELDS.unpack_from(data)
    end = _FIELDS.size + size
    if not 0 < size <= _ROOM or len(data) < end + _CRC.size:
        return None
    if _CRC.unpack_from(data, end)[0] != crc32(data[:end]):
        return None
    return first, last, data[_FIELDS.size : end].decode("utf-8", "ignore")
