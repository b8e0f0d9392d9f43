"""Taking the name away from a lock file whose holders were ended by force, or that nobody needs.

The grave is written first, by one who is alone with this (META, or the mutex of the plainer
engine). Who gets the lock reads the grave after its own record is written, and whoever buries reads
the record after the grave is written, so one of the two sees the other: either the grant does not
count, or the burial is called off. A broken file is replaced by a new one that carries its number
on. Whoever finds a burial half done (its undertaker was killed) finishes it in the same way.
"""

from __future__ import annotations

import os
from typing import Protocol

from locknut.backends.file import layout
from locknut.backends.file.folder import Folder
from locknut.backends.file.layout import ALIVE, GONE, REMOVED, Record
from locknut.errors import BackendError


class Mortal(Protocol):
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


def bury(file: Mortal, last: int, *, whoever: bool) -> bool:
    """End every hold up to the one numbered `last`; False if somebody else has come in since.

    With `whoever` that one's hold is ended too.
    """
    _refuse_in_vain(file)
    while True:
        file.mark(layout.grave(last))
        newest = file.glance().raw
        if newest <= last:
            break
        if not whoever:
            _call_off(file)
            return False
        last = newest
    _take_name(file, last)
    return True


def remove(file: Mortal) -> None:
    """By who has locked all of the file, so that nobody holds it or waits."""
    file.mark(REMOVED)
    _take_name(file, GONE)


def finish(file: Mortal) -> None:
    """Whoever buried this file may have been killed before the name was gone."""
    grave = file.grave()
    if not grave or not file.linked():
        return
    if grave != GONE and file.glance().raw > grave:
        _call_off(file)  # its holder came in before the grave was there, and is not meant
    else:
        _take_name(file, grave)


def _refuse_in_vain(file: Mortal) -> None:
    """Before the holder is told anything."""
    if not file.folder.may_remove(os.fstat(file.fd)):
        message = f"in a sticky directory only the owner of {file.path} can break this lock"
        raise BackendError(message, key=file.key, backend="file")


def _take_name(file: Mortal, raw: int) -> None:
    """If it is still this file's name. Who may not do so leaves the file in use: that is safe, for
    its locks are still the kernel's.
    """
    try:
        if file.linked() and not (raw != GONE and _replaced(file, raw)):
            file.folder.unlink(file.name)
    except OSError:
        _call_off(file)
        raise


def _replaced(file: Mortal, raw: int) -> bool:
    content = layout.heir(raw, file.key)
    try:
        return file.folder.replace(file.name, content, os.fstat(file.fd))
    except OSError:  # no room for a new file: the clock carries the number on
        return False


def _call_off(file: Mortal) -> None:
    file.mark(ALIVE)
