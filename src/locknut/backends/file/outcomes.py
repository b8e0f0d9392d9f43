"""How an attempt can end other than with a grant: answers inside this engine, not errors."""

from __future__ import annotations

import os
import stat
from errno import EMFILE, ENFILE

from locknut.errors import BackendError, BackendUnavailable


class Outcome(Exception):
    """Raised where the attempt has to be backed out of."""


class Refused(Outcome):
    """Somebody else holds the lock, or came before us."""


class Reserved(Refused):
    """A detached hold keeps us out: there is nobody to wait for, only a deadline."""

    def __init__(self, left: float) -> None:
        super().__init__()
        self.left = left


class Orphaned(Outcome):
    """The file was buried or unlinked: locks in it count for nothing, so open the name again."""


class Crowded(Outcome):
    """Another process was stopped in the middle of a short change: ask again soon."""


def failed(error: Exception, key: str | None) -> BackendError:
    """Return the error that the caller gets."""
    if isinstance(error, Crowded):
        message = "another process stopped in the middle of changing the lock file: ask again"
        return BackendUnavailable(message, key=key, backend="file")
    message = f"the lock file could not be used: {error}{none_left(error) or _advice(error)}"
    return BackendError(message, key=key, backend="file")


def none_left(error: Exception) -> str:
    """What to do where no more files can be opened; empty if something else is wrong."""
    if isinstance(error, OSError) and error.errno == EMFILE:
        return (
            "; each lock that is held or waited for takes an open file: raise the limit of this"
            " process (ulimit -n)"
        )
    if isinstance(error, OSError) and error.errno == ENFILE:
        return "; the whole machine has no more: raise its limit (sysctl fs.file-max)"
    return ""


def _advice(error: Exception) -> str:
    """In a directory that a group shares, new files must belong to that group."""
    if not isinstance(error, PermissionError) or not isinstance(error.filename, str):
        return ""
    folder = os.path.dirname(error.filename)
    try:
        mode = os.stat(folder).st_mode
    except OSError:
        return ""
    if mode & stat.S_IWGRP and not mode & stat.S_ISGID:
        return f"; to share {folder} with its group, run: chmod g+s {folder}"
    return ""
