"""History as a file: a line for each entry, read by people and by us, and never longer than wanted.

    locknut history 0000000042
    1794944249.472172 {"id":"5f63a1ecd7ce-1","age":0.7,"kind":"granted","name":"invoice:42", ...}

The first line says how many follow. Whoever writes locks the file, appends, and when twice as many
as wanted are there, writes the newest over the oldest and cuts the rest off. That needs no space on
the disk. A writer that is killed in the middle leaves a line in pieces, or some lines twice; a
reader passes over the one, and knows the others by the ids in their texts.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from locknut.backends.file import ofd_locks, this_process
from locknut.backends.file.directory import stem
from locknut.backends.file.folder import Folder
from locknut.backends.file.outcomes import Crowded
from locknut.core.values import History

SUFFIX: Final = ".history"
_HEAD: Final = b"locknut history %010d\n"
_HEAD_SIZE: Final = len(_HEAD % 0)
_FIRST = re.compile(rb"locknut history (\d{10})\n")
_LINE = re.compile(r"(\d{1,12}\.\d{6}) (.*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)")
_MOST: Final = 64 * 2**20
"""Bytes of such a file that are read: ours are smaller."""


def write(folder: Folder, stream: str, texts: Sequence[str], keep: int) -> None:
    """Raises Crowded if another process is writing, which is a matter of moments."""
    name = stem(stream) + SUFFIX
    if not keep:
        folder.unlink(name)
        return
    fd, _ = folder.open_or_create(name)
    with _locked(fd):
        now = time.time()
        _append(
            fd, [f"{now:.6f} {_escaped(text)}".encode(errors="replace") for text in texts], keep
        )


def read(folder: Folder, stream: str, back: float | None) -> History:
    now = time.time()
    fd = folder.open(stem(stream) + SUFFIX)
    if fd is None:
        return History(now)
    try:
        ofd_locks.take(
            fd, ofd_locks.READ, 0, ofd_locks.END
        )  # if somebody writes, read all the same
        lines = _lines(fd)
    finally:
        _put_away(fd)
    oldest = 0.0 if back is None else now - back
    found = [_text(line) for line in lines]
    return History(now, [each for each in found if each is not None and each[0] >= oldest])


@contextmanager
def _locked(fd: int) -> Iterator[None]:
    try:
        if not ofd_locks.take(fd, ofd_locks.WRITE, 0, ofd_locks.END):
            raise Crowded
        yield
    finally:
        _put_away(fd)


def _put_away(fd: int) -> None:
    with suppress(OSError):
        ofd_locks.drop_all(fd)
    this_process.close_fd(fd)


def _append(fd: int, new: list[bytes], keep: int) -> None:
    size = os.fstat(fd).st_size
    first = _FIRST.fullmatch(os.pread(fd, _HEAD_SIZE, 0))
    if first is None or int(first[1]) + len(new) > 2 * keep:
        kept = [*_lines(fd), *new][-keep:]
        content = _HEAD % len(kept) + b"".join(line + b"\n" for line in kept)
        _write(fd, content, 0, size)
        os.ftruncate(fd, len(content))
        return
    torn = b"" if os.pread(fd, 1, size - 1) == b"\n" else b"\n"  # by somebody who was killed
    _write(fd, torn + b"".join(line + b"\n" for line in new), size, size)
    os.pwrite(fd, _HEAD % (int(first[1]) + len(new)), 0)


def _write(fd: int, content: bytes, at: int, size: int) -> None:
    """All of it; if the disk is full, what was added is taken back."""
    try:
        done = 0
        while done < len(content):
            done += os.pwrite(fd, content[done:], at + done)
    except OSError:
        with suppress(OSError):
            os.ftruncate(fd, size)
        raise


def _lines(fd: int) -> list[bytes]:
    head, _, rest = os.pread(fd, _MOST, 0).partition(b"\n")
    return [line for line in rest.split(b"\n") if line] if _FIRST.fullmatch(head + b"\n") else []


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _text(line: bytes) -> tuple[float, str] | None:
    found = _LINE.fullmatch(line.decode(errors="replace"))
    if found is None:
        return None
    text = _ESCAPED.sub(lambda each: "\n" if each[1] == "n" else each[1], found[2])
    return float(found[1]), text
